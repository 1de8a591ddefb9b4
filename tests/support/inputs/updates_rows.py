"""Random rows for windows and sessions."""

from __future__ import annotations

import random

from support.reference import Row


def some_rows(random_: random.Random, count: int) -> list[Row]:
    calm = random_.random() < 0.4
    return [
        {
            "k": random_.choice([None, *"aaabbbccc"]),
            "t": random_.choice([None, *[(i // 2 if calm else random_.randint(max(i // 2 - 15, 0), i // 2)) + random_.choice([0, 0, 0, 9])] * 15]),
            "off": random_.choice([None, *[i - i % random_.choice([1, 1, 3])] * 20]),
            "v": random_.choice([None, *range(-3, 9)]),
            "id": i,
        }
        for i in range(count)
    ]  # fmt: skip
