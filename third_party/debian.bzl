"""Libraries that Debian installs under /usr."""

_PROBE = "test -e {probe} || " + \
         "{{ echo 'mp: {package} is missing: apt-get install {package}' >&2; exit 1; }}; >$@"

def debian_library(name, package, probe, linkopts = [], deps = [], visibility = None):
    """A library whose headers the compiler already finds.

    Args:
      name: the target.
      package: the Debian package that installs it.
      probe: a file of that package. When it is missing, whatever depends on the target stops with
        one line that names the package. This is an action, since fail() would print a trace.
      linkopts: what the linker needs, in link order.
      deps: other such libraries.
      visibility: as for every rule.
    """
    present = name + "_present"
    native.genrule(
        name = present,
        outs = [present + ".h"],
        cmd = _PROBE.format(package = package, probe = probe),
        message = "Looking for " + package,
        visibility = ["//visibility:private"],
    )
    native.cc_library(
        name = name,
        hdrs = [present],
        linkopts = linkopts,
        visibility = visibility,
        deps = deps,
    )
