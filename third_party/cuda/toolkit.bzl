"""Finds the headers, compiler and runtime of a CUDA toolkit, and NCCL's headers."""

_BUILD = """
package(default_visibility = ["//visibility:public"])

# What the host platform has, as far as nobody says otherwise.
constraint_setting(
    name = "toolkit",
    default_constraint_value = ":{state}",
)

constraint_value(
    name = "available",
    constraint_setting = ":toolkit",
)

constraint_value(
    name = "missing",
    constraint_setting = ":toolkit",
)

# The same for nvcc, which a toolkit of headers alone leaves out.
constraint_setting(
    name = "compiler",
    default_constraint_value = ":compiler_{compiler}",
)

constraint_value(
    name = "compiler_available",
    constraint_setting = ":compiler",
)

constraint_value(
    name = "compiler_missing",
    constraint_setting = ":compiler",
)

# And for the CUDA runtime as a static library.
constraint_setting(
    name = "runtime",
    default_constraint_value = ":runtime_{runtime}",
)

constraint_value(
    name = "runtime_available",
    constraint_setting = ":runtime",
)

constraint_value(
    name = "runtime_missing",
    constraint_setting = ":runtime",
)

exports_files(["nvcc"])

# kWhyCudaIsLeftOut: what a program for GPUs lacks here, or "".
cc_library(
    name = "left_out",
    hdrs = ["toolkit/left_out.h"],
    includes = ["."],
)

# It loads the driver when it is first called, so a program that links it starts without one.
cc_library(
    name = "cudart",
    srcs = glob(["lib/libcudart_static.a"]),
    linkopts = [
        "-ldl",
        "-lpthread",
        "-lrt",
    ],
    target_compatible_with = [
        ":available",
        ":runtime_available",
    ],
)

cc_library(
    name = "cuda_headers",
    hdrs = glob([
        "cuda/channel_descriptor.h",
        "cuda/crt/*",
        "cuda/cuda*.h",
        "cuda/cuda*.hpp",
        "cuda/device_launch_parameters.h",
        "cuda/*_functions.h",
        "cuda/*_functions.hpp",
        "cuda/*_types.h",
        "cuda/nv/**",
    ]),
    includes = ["cuda"],
    target_compatible_with = [":available"],
)

cc_library(
    name = "nccl_headers",
    hdrs = glob([
        "nccl/nccl*.h",
        "nccl/nccl_device/**",
    ]),
    includes = ["nccl"],
    target_compatible_with = [":available"],
    deps = [":cuda_headers"],
)
"""

# nvcc looks for its parts beside itself, so it is called where it lies. Another version makes
# another file, and everything is compiled anew.
_NVCC = """#!/bin/sh
# {version}
exec '{path}' "$@"
"""

_NO_NVCC = """#!/bin/sh
echo 'mp: the CUDA toolkit has no nvcc' >&2
exit 1
"""

def _compiler(repository_ctx, home):
    """Writes `nvcc`; whether there is one."""
    path = repository_ctx.path(home + "/bin/nvcc")
    if not path.exists:
        repository_ctx.file("nvcc", _NO_NVCC)
        return False
    version = repository_ctx.execute([path, "--version"]).stdout.strip().replace("\n", "\n# ")
    repository_ctx.file("nvcc", _NVCC.format(path = path, version = version))
    return True

def _first_with(repository_ctx, file, folders):
    for folder in folders:
        folder = repository_ctx.path(folder)
        if folder.get_child(file).exists:
            return folder
    return None

def _runtime(repository_ctx, home):
    """Links to the static library; whether there is one."""
    library = "libcudart_static.a"
    folder = _first_with(repository_ctx, library, [home + "/lib64", home + "/lib"])
    if folder:
        repository_ctx.symlink(folder.get_child(library), "lib/" + library)
    return folder != None

_LEFT_OUT = """#pragma once

inline constexpr char kWhyCudaIsLeftOut[] = "{why}";
"""

def _toolkit(repository_ctx):
    home = repository_ctx.os.environ.get("CUDA_HOME") or "/usr/local/cuda"
    nccl_home = repository_ctx.os.environ.get("NCCL_HOME") or home
    cuda = _first_with(repository_ctx, "cuda_runtime.h", [home + "/include"])
    nccl = _first_with(repository_ctx, "nccl.h", [
        prefix + "/include"
        for prefix in [nccl_home, home, "/usr/local", "/usr"]
    ])
    found = cuda and nccl
    if found:
        for entry in cuda.readdir():
            if not entry.basename.startswith("nccl"):
                repository_ctx.symlink(entry, "cuda/" + entry.basename)
        for entry in nccl.readdir():
            if entry.basename.startswith("nccl"):
                repository_ctx.symlink(entry, "nccl/" + entry.basename)
    compiler = _compiler(repository_ctx, home)
    runtime = _runtime(repository_ctx, home)
    if not cuda:
        why = "no CUDA toolkit in " + home
    elif not nccl:
        why = "no nccl.h in " + nccl_home + "/include"
    elif not compiler:
        why = "no nvcc in " + home + "/bin"
    elif not runtime:
        why = "no libcudart_static.a in " + home + "/lib64"
    else:
        why = ""
    repository_ctx.file("toolkit/left_out.h", _LEFT_OUT.format(
        why = why.replace("\\", "\\\\").replace('"', '\\"'),
    ))
    state = {True: "available", False: "missing"}
    repository_ctx.file("BUILD.bazel", _BUILD.format(
        state = state[bool(found)],
        compiler = state[bool(found and compiler)],
        runtime = state[bool(found and runtime)],
    ))

# Local, so that a new Bazel server looks again, and whoever sees another toolkit and says so in
# MP_TOOLKIT (tools/lib.sh).
cuda_toolkit = repository_rule(
    implementation = _toolkit,
    environ = [
        "CUDA_HOME",
        "MP_TOOLKIT",
        "NCCL_HOME",
    ],
    local = True,
)
