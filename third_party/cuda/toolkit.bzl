"""Finds the headers and the compiler of a CUDA toolkit, and NCCL's headers, on this machine."""

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

exports_files(["nvcc"])

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

def _first_with(repository_ctx, header, prefixes):
    for prefix in prefixes:
        folder = repository_ctx.path(prefix + "/include")
        if folder.get_child(header).exists:
            return folder
    return None

def _toolkit(repository_ctx):
    home = repository_ctx.os.environ.get("CUDA_HOME") or "/usr/local/cuda"
    cuda = _first_with(repository_ctx, "cuda_runtime.h", [home])
    nccl = _first_with(repository_ctx, "nccl.h", [home, "/usr/local", "/usr"])
    found = cuda and nccl
    if found:
        for entry in cuda.readdir():
            if not entry.basename.startswith("nccl"):
                repository_ctx.symlink(entry, "cuda/" + entry.basename)
        for entry in nccl.readdir():
            if entry.basename.startswith("nccl"):
                repository_ctx.symlink(entry, "nccl/" + entry.basename)
    compiler = _compiler(repository_ctx, home) and found
    repository_ctx.file("BUILD.bazel", _BUILD.format(
        state = "available" if found else "missing",
        compiler = "available" if compiler else "missing",
    ))

# Local, so that a new Bazel server looks again.
cuda_toolkit = repository_rule(
    implementation = _toolkit,
    environ = ["CUDA_HOME"],
    local = True,
)
