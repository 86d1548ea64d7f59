"""Makes tests/model/text/testdata/tokens.jsonl: texts that are hard on a BERT tokenizer, each with
the ids that Hugging Face's tokenizers library gives.

    pip install tokenizers
    python3 tools/reference/tokens.py MODEL_FOLDER tests/model/text/testdata/tokens.jsonl

MODEL_FOLDER holds the tokenizer.json of all-MiniLM-L6-v2. The first line of the output says what
made it; each other line is {"text": ..., "ids": [...]}, or {"bytes": hexadecimal, "ids": [...]}
for what is not UTF-8, which the library sees as Python decodes it with errors="replace".
"""

import json
import random
import sys
import unicodedata

import tokenizers

PLAIN = [
    "", " ", "   \t \n ", "a", "hello world", "Hello, World!", "The quick brown fox jumps.",
    "unaffable", "unwantedrunning", "tokenization embeddings", "HELLO hello HeLLo", "don't can't",
    "it's 5 o'clock", "e-mail re-use", "U.S.A. vs. U.K.", "3.14159 1,000,000 1e-9 0x1F 50%",
    "1st 2nd 3rd 100th", "2026-11-30T14:00:00Z", "$5 \u20ac10 \u00a320 \u00a5300 \u20bf",
    "https://example.com/a/b?c=d&e=f#g", "user.name+tag@example.co.uk", "C:\\dir\\file.txt",
    "for (int i = 0; i < n; ++i) { a[i] += b[i] * 2; }", "def f(x): return x**2  # square",
    "<html><body class=\"x\">&amp;</body></html>", "SELECT * FROM t WHERE a = 'b';",
    "{\"key\": [1, 2, null]}", "a_b_c __init__ snake_case", "foo::bar->baz", "a\tb\nc\rd\r\ne",
    "line one\r\nline two\rline three\n\n\nline four", "x" * 30, "ha" * 40, "supercalifragilistic",
    "zzzzqqqq", "\u2603", "## ##ing #", "##", "a##b", "[UNK]", "unk",
]

SPECIAL = [
    "[SEP]", "[CLS]", "[MASK]", "[PAD]", "[UNK]", "[sep]", "[Sep]", "[ CLS ]", "[ SEP]", "[SEP ]",
    "[MASK]x", "x[MASK]", "a[MASK]b", "a [MASK] b", "[SEP][SEP]", "[CLS][SEP][PAD][MASK][UNK]",
    "[[SEP]]", "[SE[SEP]P]", "[SEP", "SEP]", "[]", "[SEPA]", "[MASK] is [MASK].", "\u00e9[SEP]\u0301",
    "e[SEP]\u0301", "[\u0000SEP]", "[S\u0301EP]", "[\uff33EP]", "\uff3bSEP\uff3d", "[SEP]\u3000[CLS]",
    "\t[SEP]\n", "x" * 100 + "[SEP]" + "x" * 101, "[unused0]", "[unused1] [unused99]", "<s></s>",
    "[CLS] hello [SEP] world [SEP]", "[MASK", "[MASK][", "\u4e2d[MASK]\u6587", ".[MASK]!",
]

ACCENTS = [
    "caf\u00e9", "cafe\u0301", "CAF\u00c9", "na\u00efve na\u00efvet\u00e9", "\u00c5ngstr\u00f6m A\u030angstro\u0308m", "\u212bngstrom",
    "r\u00e9sum\u00e9 re\u0301sume\u0301", "\u1ec7 e\u0323\u0302 e\u0302\u0323 \u1eb9\u0302", "a\u0301\u0302\u0303\u0304\u0305\u0306b", "\u0301", "\u0301a", " \u0301 a",
    "a\u0301" * 60, "\u0344 \u0385 \u1fc1", "\u0390 \u03b0", "\u01d6 \u01dc \u0230", "\u00f1 n\u0303", "\u00e7 c\u0327", "\u0142\u00f3d\u017a", "\u0111\u01b0\u1eddng",
    "Ti\u1ebfng Vi\u1ec7t", "\u010de\u0161tina p\u0159\u00edli\u0161", "\u00d8re \u00e6sir \u0153uvre", "\u00feorn \u00f0", "\u0259 \u0292 \u014b",
    "a\u20dd b\u20e3 1\ufe0f\u20e3", "o\u0338 \u2260 =\u0338", "\u0340 \u0341 \u0343", "q\u0307\u0323 q\u0323\u0307",
    "\ua66f \u0488a", "a\u034fb", "a\u0345 \u1fb3 \u1f80",
]

CASES = [
    "\u0130stanbul I\u0131i\u0130", "\u0130", "i\u0307", "I\u0307", "Stra\u00dfe STRASSE \u1e9e", "\u039f\u0394\u039f\u03a3 \u03bf\u03b4\u03bf\u03c2 \u03a3", "\u03a3\u0391\u03a3 \u03a3.",
    "\ufb01nd \ufb02y \ufb03 \ufb06 \ufb13", "\u01c4 \u01c5 \u01c6 \u01f1", "\u1e9e\u017f", "\u212a \u2126", "\u2160\u2163 \u2170", "\u24b6 \u24d0",
    "\u0410\u0411\u0412 \u0430\u0431\u0432 \u0401\u0451 \u0419\u0439", "\u0490 \u0404\u0407", "\u10d0\u10d1 \u10a0\u10a1", "\u0531\u0587", "\u13a0\u13b0", "\U00010400\U00010428",
    "\u1f08\u1f88\u1fbc", "\uff21\uff22\uff23 \uff41\uff42\uff43 \uff10\uff11", "\U0001d400\U0001d44e\U0001d504\U0001d7ce \U0001d539", "\u00aa \u00ba \u00b9\u00b2\u00b3 \u2080 \u00bd \u00bc",
    "\u210c\u2115\u211d", "\u33a1 \u3392 \u32c0",
]

SCRIPTS = [
    "\u4e2d\u6587\u6d4b\u8bd5", "\u6211\u7231machine learning\u5b66\u4e60", "\u4e00\u4e8c\u4e09", "\u65e5\u672c\u8a9e\u306e\u30c6\u30b9\u30c8", "\u304c\u304b\u3099 \u30ac\u30ab\u3099", "\u3071\u30d1\u30fd\u30fc \u3046\u3099", "\uff76\uff9e \uff8a\uff9f",
    "\u3400\u4dbf \u9fff", "\U00020000\U0002a6d6", "\U0002a700\U0002b734 \U0002b740\U0002b81d", "\U0002b820\U0002b91f\U0002b920\U0002cea1", "\U0002ceb0\U0002ebe0", "\U00030000", "\uf900\ufa0e\ufa6d \U0002f800\U0002fa1d",
    "\u2e80\u2f00 \u3007\u3021", "\u3105\u3106", "\u3001\u3002\u300c\u300d\u3010\u3011\uff01\uff1f\uff0c", "\u3000\u4e2d\u3000", "\u4dc0\u4dff",
    "\ud55c\uad6d\uc5b4 \ud14c\uc2a4\ud2b8", "\u1112\u1161\u11ab\u1100\u116e\u11a8", "\u3131\u314f", "\uac00\uac01\ud7a3", "\ua960\ud7b0", "\u302e\u302f\uac00\u302e",
    "\u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22 \u0e01\u0e33\u0e19\u0e49\u0e33", "\u0ea5\u0eb2\u0ea7 \u0eb3", "\u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u0645\u064e\u0631\u0652\u062d\u064e\u0628\u0627", "\ufe8d\ufedf \ufdfa \ufdf2", "\u0660\u0661\u0662 \u06f1\u06f2", "\u0622\u0623\u0625 \u0627\u0653",
    "\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd", "\u05e9\u05dc\u05d5\u05dd \u05be \u05f3 \u05f4", "\ufb2a\ufb4f", "\u0939\u093f\u0928\u094d\u0926\u0940 \u0915\u094d\u0937\u0924\u094d\u0930\u093f\u092f", "\u0958 \u0915\u093c", "\u09ac\u09be\u0982\u09b2\u09be \u09cb \u09dc", "\u0ba4\u0bae\u0bbf\u0bb4\u0bcd \u0bca",
    "\u0c24\u0c46\u0c32\u0c41\u0c17\u0c41", "\u0d2e\u0d32\u0d2f\u0d3e\u0d33\u0d02 \u0d4b", "\u0dc3\u0dd2\u0d82\u0dc4\u0dbd", "\u0f56\u0f7c\u0f51\u0f0b \u0f43 \u0f71\u0f72", "\u1019\u103c\u1014\u103a\u1019\u102c \u1026", "\u1781\u17d2\u1798\u17c2\u179a",
    "\u12a0\u121b\u122d\u129b", "\u1820\u182e\u180b\u180e", "\u1401\u1403", "\u16a0\u16a2", "\u03b5\u03bb\u03bb\u03b7\u03bd\u03b9\u03ba\u03ac \u1f10\u03bd", "\u0440\u0443\u0441\u0441\u043a\u0438\u0439", "\u0565\u0580\u0565\u0582\u0561\u0576",
    "\U00010330\U00010331", "\U00012000", "\U000110ab\U0001109a \U0001109a\U000110ba", "\U0001d15e\U0001d164 \U0001d158\U0001d165", "\U0001d16e\U0001d165\u302e a",
]

EMOJI = [
    "\U0001f600", "hi \U0001f600!", "\U0001f44d\U0001f3fd", "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466", "\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7", "\u2764\ufe0f \u2764", "\U0001f3f4\U000e0067\U000e0062\U000e007f",
    "\U0001f937\u200d\u2642\ufe0f", "\u2600\u2601\u2602", "\u00a9 \u00ae \u2122", "\u2192 \u21d2 \u221e \u2211 \u222b \u221a", "\u2581\u2582 \u2588", "\u2500\u250c", "\u266a\u266d",
]

INVISIBLE = [
    "a\u00a0b", "a\u200bb", "\ufeffa", "a\ufeffb", "a\u00adb", "a\u200eb\u200fc", "\u202aa\u202c", "a\u2060b", "a\u200cb\u200dc", "a\u061cb", "a\u180eb",
    "a\u0000b", "\u0000", "a\u0001\u0002b", "a\u0007b", "a\u001bb", "a\u007fb", "a\u0080b", "a\u0085b", "a\u000bb", "a\u000cb", "a\u2028b\u2029c",
    "a\u1680b", "a\u2000b\u2009c\u200ad", "a\u202fb\u205fc\u3000d", "\ue000a", "a\uf8ffb", "a\U000f0000b\U0010fffd", "\ufffd", "a\ufffdb", "\ufffd \ufffd",
    "a\ud7ffb", "a\ufffeb", "a\uffffb", "a\ufdd0b", "a\U0010ffffb", "a\u0378b", "\u0378", "a\U0001fffeb", "\ufff9a\ufffab\ufffb", "\U000e0001a", "\u206aa", "\u00a0", "\u200b",
    "\u0001 \u0002", "a \u200b b", "\u2063x\u2064", "\u0600 \u06dd \u070f", "\U0001d173a",
]

PUNCTUATION = [
    "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", "a!b\"c#d$e%f", "...", "\u2026", "--", "\u2014", "\u2013\u2012\u2015", "\u2018a\u2019 \u201cb\u201d", "\u00aba\u00bb \u2039b\u203a",
    "\u00bfque? \u00a1si!", "a\u00b7b", "\u2022 item", "\u00a7 1 \u00b6 2", "\u2020 \u2021", "\u203c\u2047", "\u2030 \u2032", "\u055a \u05be \u060c \u061b \u061f", "\u0964 \u0965", "\u0e4f \u0e5a",
    "\u30fb\u301c\u3030", "\ufe50\ufe5f\ufe63", "\uff01\uff0f\uff1a\uff3b\uff40\uff5b", "^ ` ~ | < > = + $", "\u00a2\u00ac\u00b1\u00d7\u00f7", "\u2212 \u2215", "\u00b4 \u00a8 \u00af \u00b8", "\u02dc \u02c6", "(((a)))",
    "a_b", "\u203fa\u2040", "\u2045a\u2046", "\u2983a\u2984", "?!?!?!", "---a---", "\u10fb \u1360\u1361", "\u2cf9 \u2e00 \u2e2e", "\u2308a\u2309", "\U00010100 \U0001039f",
]

ILL_FORMED = [
    b"\xff", b"a\xffb", b"\x80", b"a\x80\x80b", b"\xc3", b"caf\xc3", b"caf\xc3 x", b"\xc0\xaf", b"\xe0\x80\xaf",
    b"\xed\xa0\x80", b"a\xed\xa0\x80\xed\xb0\x80b", b"\xf0\x9f\x98", b"\xf0\x9f\x98 \xf0\x9f\x98\x80", b"\xf4\x90\x80\x80",
    b"\xf5\x80\x80\x80", b"\xe4\xb8[SEP]", b"[SE\xffP]", b"\xfe\xff", b"a\xe2\x82b", b"\xc3\xa9\xa9", b"\xf1\x80\x80\xe1\x80\xc2b\x80c\x80\xbfd",
]


def long_texts():
    for size in (98, 99, 100, 101, 102, 200):
        yield "a" * size
        yield "\u00e9" * size  # one character after the accent is gone
        yield "\u0130" * size
        yield "\U0001f600" * size
    yield "b" * 99 + "\u00e9"
    yield "b" * 100 + "\u0301"
    yield "b" * 100 + "\u200b"
    yield "b" * 50 + "-" + "b" * 100 + " " + "b" * 101 + " c"
    yield "\uac00" * 33 + "a"
    yield "\uac00" * 50
    yield "\uac01" * 34
    yield "\u302e" * 100
    yield "\u302e" * 101
    yield "\u4e2d" * 150
    yield "word " * 600
    yield "x y. " * 200
    yield " " * 3000 + "end"


def steady_code_points():
    """Those whose category is as it was in Unicode 3.2: the library's tables are of many ages, and
    ours are newer."""
    old = unicodedata.ucd_3_2_0
    steady = (chr(c) for c in range(1, 0x30000) if not 0xD800 <= c < 0xE000)
    return [c for c in steady if old.category(c) == unicodedata.category(c) != "Cn"]


def random_texts(vocabulary, count):
    rng = random.Random(20261130)
    points = steady_code_points()
    low = [c for c in points if c < "\u3000"]
    marks = [c for c in points if unicodedata.category(c)[0] == "M"]
    between = [" ", " ", "\t", "\r\n", "\u00a0", "\u0000", "\u200b", ".", "-", "'", "[SEP]", "[MASK]"]
    for _ in range(count):
        text = ""
        for _ in range(rng.choice([1, 2, 4, 8, 16, 32])):
            word = rng.choice(vocabulary).removeprefix("##")
            text += rng.choice([word, word, word.upper(), rng.choice(points), rng.choice(low),
                                rng.choice(low), rng.choice(marks), rng.choice(between)])
        yield text


def main(folder, output):
    tokenizer = tokenizers.Tokenizer.from_file(folder + "/tokenizer.json")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    vocabulary = sorted(tokenizer.get_vocab())
    texts = PLAIN + SPECIAL + ACCENTS + CASES + SCRIPTS + EMOJI + INVISIBLE + PUNCTUATION
    texts += list(long_texts()) + list(random_texts(vocabulary, 150))
    with open(output, "w", encoding="ascii") as lines:
        made = {"made_by": "tools/reference/tokens.py", "tokenizers": tokenizers.__version__,
                "model": "all-MiniLM-L6-v2", "texts": len(texts) + len(ILL_FORMED)}
        lines.write(json.dumps(made) + "\n")
        for text in texts:
            lines.write(json.dumps({"text": text, "ids": tokenizer.encode(text).ids}) + "\n")
        for raw in ILL_FORMED:
            text = raw.decode("utf-8", "replace")
            line = {"bytes": raw.hex(), "ids": tokenizer.encode(text).ids}
            lines.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
