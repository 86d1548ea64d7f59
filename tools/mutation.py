"""The defects that tools/mutants puts into the sources: those of mutants.txt, and those that
operators generate; and the tests that have to find them."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
# In stages of tests that may take so many seconds each; a later one runs where those before have
# found nothing.
PARTS = (30, ["//tests/host:executor_test", "//tests/host:carry_out_test",
              "//tests/host:carry_out_slot_test", "//tests/host:operation_test",
              "//tests/host:stream_test", "//tests/host:stream_wait_test"])
CONTRACT = (120, ["//tests/host:contract_test", "//tests/host:contract_seeded_test"])
CORE = (120, ["//tests:all"])
LONG = (300, ["//tests/random:host_test", "//tests/explore:world_test"])
CUDA = (30, ["//tests/cuda:gather_test", "//tests/cuda:by_hand_test", "//tests/cuda:stream_test",
             "//tests/cuda:calls_test"])
ALL_CUDA = (300, ["//tests/cuda/...", "//tests/random:fakes_test"])
SUITES = {
    "host": [PARTS, CONTRACT, LONG],
    "core": [CONTRACT, CORE, PARTS, LONG],
    "cuda": [CUDA, ALL_CUDA],
}
# What is generated is in these.
GENERATED = {
    "host": ["carry_out.cc", "executor.cc", "graph.cc", "operation.cc", "stream.cc", "stream.h"],
    "core": ["agreement.cc", "group.cc", "group_failure.cc", "group_graph.cc", "overlap.cc",
             "plan.cc", "recorded_agreement.cc", "stream.cc", "wait_graph.cc", "world_run.cc",
             "world_state.cc"],
    "cuda": ["capture.cc", "communicator.cc", "direct.cc", "gather.cc", "reduction.cc", "relay.cc",
             "route.cc", "stream.cc"],
}
FOLDERS = {"host": "mp/host/", "core": "mp/", "cuda": "mp/cuda/"}
OPERATORS = [(re.compile(old), new) for old, new in [
    (r" < ", " <= "), (r" <= ", " < "), (r" > ", " >= "), (r" >= ", " > "),
    (r" == ", " != "), (r" != ", " == "), (r" && ", " || "), (r" \|\| ", " && "),
    (r"(?<=[\w)\]]) \+ (?=[\w(])", " - "), (r"(?<=[\w)\]]) - (?=[\w(])", " + "),
    (r"\bif \((?!const |auto )(.*)\)(?= [{\w]|$)", r"if (!(\1))"),
    (r"\btrue\b", "false"), (r"\bfalse\b", "true"), (r"\+\+(?=\w)", "--"),
    (r"(?<![\w.])0(?![\w.])", "1"), (r"(?<![\w.])1(?![\w.])", "2"),
    (r"\bcontinue;", "break;"), (r"\bstd::min\b", "std::max"), (r"\bstd::max\b", "std::min"),
    (r"^( +)(?!return|delete)[\w.\->\[\]]+\(.*\);$", r"\1;"),  # a call that is left out
]]
NO_CODE = re.compile(r"^\s*(//|#|MP_CHECK|constexpr char|.*\b(template|operator|Str\w+)\b)")


class Mutant:
    def __init__(self, number, name, file, suite, old, new, at=None):
        self.number, self.name, self.file, self.suite = number, name, file, suite
        self.old, self.new, self.at = old, new, at  # at: the line, where `old` is all of it
        if not self.old or self.old == self.new or self.suite not in SUITES:
            raise ValueError(f"changes nothing, or has no suite: {self.name}")

    @staticmethod
    def parse(block, number):
        lines = block.splitlines()
        fields = [field.strip() for field in lines[0][2:].split("|")]
        if len(fields) != 3:
            raise ValueError(f"not a head of three fields: {lines[0]}")
        return Mutant(number, *fields,
                      "\n".join(line[2:] for line in lines if line.startswith("-")),
                      "\n".join(line[2:] for line in lines if line.startswith("+")))

    def applied(self, text):
        if self.at is not None:
            lines = text.split("\n")
            lines[self.at] = self.new
            return "\n".join(lines)
        count = text.count(self.old)
        if count != 1:
            raise ValueError(f"{self.name}: {self.file} has its place {count} times")
        return text.replace(self.old, self.new)


def generate():
    """Every mutant of every operator but those that are known to change nothing."""
    known = set()
    equivalents = ROOT / "tools/equivalents.txt"
    for line in equivalents.read_text().splitlines() if equivalents.exists() else []:
        if line and not line.startswith("#"):
            known.add(tuple(field.strip() for field in line.split(" | "))[:3])
    mutants = []
    for suite, names in GENERATED.items():
        for file in (FOLDERS[suite] + name for name in names):
            before = "{"
            for at, line in enumerate((ROOT / file).read_text().split("\n")):
                code = line.split("  // ")[0]
                if NO_CODE.match(code) or '"' in code:
                    continue
                begins, before = before[-1:] in "{};:", code or before
                for pattern, new in OPERATORS[:None if begins else -1]:
                    for match in pattern.finditer(code):
                        changed = (code[:match.start()] + match.expand(new) + code[match.end():])
                        if (file, code.strip(), changed.strip()) in known:
                            continue
                        name = f"{file}:{at + 1}: {code.strip()}  =>  {changed.strip()}"
                        mutants.append(Mutant(len(mutants) + 1, name, file, suite, line, changed,
                                              at))
    return mutants


def read_mutants():
    text = (ROOT / "tools/mutants.txt").read_text()
    blocks = re.split(r"\n\n+(?=@ )", text)[1:]
    return [Mutant.parse(block.strip("\n"), i + 1) for i, block in enumerate(blocks)]
