"""Libraries that are built twice: plain, and for the explorer of schedules.

An explorable_library `name` is a cc_library, and `name`_explored the same sources with
tests/explore/sync.h in place of mp/base/sync.h, over the explored forms of its deps.
"""

load("@rules_cc//cc:defs.bzl", "cc_library")

# What has an explored form: all that shares memory between threads.  All else serves both.
_EXPLORABLE = [
    "//mp:agreement",
    "//mp:backend",
    "//mp:flight",
    "//mp:health",
    "//mp:plan",
    "//mp:trace",
    "//mp:world",
    "//mp/base:cycle_clock",
    "//mp/base:process",
    "//mp/host:backend",
    "//mp/host:engine",
    "//mp/host/kernels:copy",
    "//mp/host/kernels:fold",
]
_SYNC = "//mp/base:sync"

EXPLORED_SYNC = "//tests/explore:sync"
EXPLORED_COPTS = [
    "-include",
    "tests/explore/sync.h",
    # For //tests/explore:race, which is linked in place of the sanitizer.
    "-fsanitize=thread",
    "--param=tsan-instrument-func-entry-exit=0",
    "-g1",
]

def explored(deps, package):
    """The deps of an explored target, in `package`."""
    result = []
    for dep in deps:
        label = "//" + package + dep if dep.startswith(":") else dep
        if label == _SYNC:
            continue
        result.append(dep + "_explored" if label in _EXPLORABLE else dep)
    return result + [EXPLORED_SYNC]

def explorable_library(name, deps = [], copts = [], visibility = None, **kwargs):
    cc_library(
        name = name,
        copts = copts,
        deps = deps,
        visibility = visibility,
        **kwargs
    )
    cc_library(
        name = name + "_explored",
        testonly = True,
        copts = copts + EXPLORED_COPTS,
        # A sanitizer proper would meet that of the copts.
        tags = ["no_sanitizer"],
        visibility = [
            "//mp:__subpackages__",
            "//tests/explore:__pkg__",
        ],
        deps = explored(deps, native.package_name()),
        **kwargs
    )
