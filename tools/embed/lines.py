"""Lines of mixed length, the same ones each time: python3 lines.py MODEL_FOLDER COUNT > LINES

Of ten lines about six are a short sentence, three are a long one, and one is a paragraph, some of
them longer than the model takes.
"""

import random
import sys


def main(folder, count):
    with open(folder + "/vocab.txt", encoding="utf-8") as file:
        words = [w for w in file.read().splitlines() if w.isascii() and w.isalpha() and len(w) > 1]
    rng = random.Random(6)
    for _ in range(int(count)):
        least, most = rng.choices([(3, 12), (13, 40), (41, 280)], [6, 3, 1])[0]
        print(" ".join(rng.choices(words, k=rng.randint(least, most))) + ".")


main(*sys.argv[1:])
