"""Finds the headers of a CUDA toolkit and of NCCL on this machine."""

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
    repository_ctx.file("BUILD.bazel", _BUILD.format(state = "available" if found else "missing"))

# Local, so that a new Bazel server looks again.
cuda_toolkit = repository_rule(
    implementation = _toolkit,
    environ = ["CUDA_HOME"],
    local = True,
)
