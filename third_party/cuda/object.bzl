"""Code for GPUs."""

# From the oldest that CUDA 13 compiles for; what is newer than the last translates its PTX.
ARCHITECTURES = ["75", "80", "86", "89", "90", "100"]

_FLAGS = [
    "-std=c++20",
    "-O3",
    # Functions that a compiler could run are device code too.
    "--expt-relaxed-constexpr",
    "--threads=2",
    # Images in the object can be recognised, and drivers need not unpack them.
    "--no-compress",
    "--Werror=all-warnings",
    "-Xcompiler=-fPIC,-Wall,-Wextra,-Werror",
]

def _cuda_object(ctx):
    object = ctx.actions.declare_file(ctx.label.name + ".o")
    deps = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps])
    compiled = deps.compilation_context
    args = ctx.actions.args()
    args.add_all(_FLAGS)
    for architecture in ARCHITECTURES:
        args.add("-gencode=arch=compute_{0},code=sm_{0}".format(architecture))
    args.add("-gencode=arch=compute_{0},code=compute_{0}".format(ARCHITECTURES[-1]))
    args.add_all(compiled.quote_includes, before_each = "-I")
    args.add("-c", ctx.file.src)
    args.add("-o", object)
    ctx.actions.run(
        executable = ctx.executable._nvcc,
        arguments = [args],
        inputs = depset([ctx.file.src], transitive = [compiled.headers]),
        outputs = [object],
        mnemonic = "CudaCompile",
        progress_message = "Compiling %s for GPUs" % ctx.file.src.short_path,
        # nvcc looks for its host compiler.
        use_default_shell_env = True,
    )
    return [DefaultInfo(files = depset([object]), runfiles = ctx.runfiles([object]))]

# An object file, for the srcs of a cc_library. Its linker needs the real CUDA runtime.
cuda_object = rule(
    implementation = _cuda_object,
    attrs = {
        "src": attr.label(
            allow_single_file = [".cu"],
            mandatory = True,
        ),
        "deps": attr.label_list(providers = [CcInfo]),
        "_nvcc": attr.label(
            default = "@cuda_toolkit//:nvcc",
            allow_single_file = True,
            executable = True,
            cfg = "host",
        ),
    },
)
