"""What each feature weighs, and how often first candidates as likely were right.

Written by `python -m tests.bench.fitting`, not by hand. Fitted on people's labels, each
source weighing the same: 126 runs of whowhen_ag, 62 runs of trail, 52 runs of apb_hotpotqa.
How well it does on sources held out is in `fixtures/localiser.json`.
"""

from __future__ import annotations

from taxonomy.findings import Band
from taxonomy.localiser.features import Model

# fmt: off
MODEL = Model(
    weights={
        "unfounded": 1.34,  # 1.50: acts on a value not found in context, or contradicts a result
        "bad call": 1.51,  # 1.50: a malformed call, rejected arguments, or the wrong tool
        "repeats": 0.74,  # 0.75: a loop begins; one call that returns nothing new counts a quarter
        "bad end": 0.52,  # 0.50: gives up or is truncated; counts less where a limit ended the run
        "other finding": 1.00,  # 1.00: any other finding of the rules
        "first finding": 0.83,  # 1.00: the earliest finding other than a bad end
        "error": 0.93,  # 1.00: a call or code fails for the first time; later ones count a fifth
        "assumption": 1.43,  # 1.50: states that it assumes, simulates or makes up
        "thin grounds": 0.60,  # 0.50: states the final answer, which no result holds
        "new facts": 0.57,  # 0.50: states numbers and names not found in context
        "objection": 0.75,  # 0.75: the user intervened or objected right after
        "first write": 2.00,  # 2.00: the first write; counts less the more steps write
        "first action": 0.49,  # 0.50: the first step that acts: writes code or changes something
        "first work": 0.47,  # 0.50: the first of a group to do something for the task
        "last chance": 0.50,  # 0.50: the last step that changed something
        "late": 1.15,  # 1.00: how late in a run that answers a question and changes nothing
        "growth": 0.34,  # 0.25: output or context grows sharply; cost or latency counts half
        "coordinates": -1.34,  # -1.50: only plans, routes, quotes the task or closes
    },
    bands=(
        (0.00, Band(low=0.06, runs=29)),
        (0.60, Band(low=0.74, runs=32)),
    ),
)

FOLDS: dict[str, Model] = {
    "whowhen_ag": Model(
        weights={
            "unfounded": 1.51, "bad call": 1.52, "repeats": 0.75, "bad end": 0.52,
            "other finding": 1.00, "first finding": 1.01, "error": 0.99, "assumption": 1.51,
            "thin grounds": 0.59, "new facts": 0.53, "objection": 0.75, "first write": 2.00,
            "first action": 0.46, "first work": 0.50, "last chance": 0.50, "late": 1.14,
            "growth": 0.36, "coordinates": -1.40,
        },
        bands=(
            (0.00, Band(low=0.15, runs=26)),
            (0.60, Band(low=0.74, runs=36)),
        ),
    ),
    "trail": Model(
        weights={
            "unfounded": 0.78, "bad call": 1.45, "repeats": 0.70, "bad end": 0.50,
            "other finding": 0.99, "first finding": 0.28, "error": 0.65, "assumption": 1.09,
            "thin grounds": 0.58, "new facts": 0.81, "objection": 0.75, "first write": 2.00,
            "first action": 0.66, "first work": 0.46, "last chance": 0.50, "late": 1.38,
            "growth": 0.37, "coordinates": -0.51,
        },
        bands=(
            (0.00, None),
            (0.60, Band(low=0.74, runs=11)),
        ),
    ),
    "apb_hotpotqa": Model(
        weights={
            "unfounded": 1.45, "bad call": 1.50, "repeats": 0.75, "bad end": 0.51,
            "other finding": 1.00, "first finding": 0.94, "error": 0.97, "assumption": 1.48,
            "thin grounds": 0.53, "new facts": 0.52, "objection": 0.75, "first write": 2.00,
            "first action": 0.49, "first work": 0.49, "last chance": 0.50, "late": 1.03,
            "growth": 0.27, "coordinates": -1.49,
        },
        bands=(
            (0.00, Band(low=0.06, runs=25)),
            (0.60, Band(low=0.75, runs=25)),
        ),
    ),
    "tau_airline": Model(
        weights={
            "unfounded": 1.34, "bad call": 1.51, "repeats": 0.74, "bad end": 0.52,
            "other finding": 1.00, "first finding": 0.83, "error": 0.93, "assumption": 1.43,
            "thin grounds": 0.60, "new facts": 0.57, "objection": 0.75, "first write": 2.00,
            "first action": 0.49, "first work": 0.47, "last chance": 0.50, "late": 1.15,
            "growth": 0.34, "coordinates": -1.34,
        },
        bands=(
            (0.00, Band(low=0.06, runs=29)),
            (0.60, Band(low=0.74, runs=32)),
        ),
    ),
}
"""By source the model that was fitted without it."""

FITTED: dict[str, str] = {
    "whowhen_ag":
        "00816f1b 0119490b 015c3272 028e81bb 04a496b5 06bef3dd 0a4855fc 0cc05763 0dabdd48 "
        "0e839d3a 0f30fab3 0f536e0f 0feba7a2 10872544 1255c9d7 15678031 15d721b6 167a75dc "
        "167cabd0 199c704d 1adc97ee 1be5c681 20d93438 2417a07f 24356e89 2515091e 294b9ea0 "
        "2cac5440 31aee52a 31b64ff1 34367b8d 3521c909 393ee818 396f85dc 39be4f6d 3b302c9d "
        "43f7e2a3 44d0934c 45757fd2 4824b209 48c006cf 4bed51ad 4e31303e 517b101f 54a088ed "
        "5579129b 5a444275 5ce9172c 5e67219b 5eda0f59 60e466d9 62e28a58 65559e21 66aa1839 "
        "6e150bde 716e580f 76c75788 777b3187 77c45f48 79a0b03f 7a8b32d6 7af09f5f 7c58c2f5 "
        "7f4a1984 8057fcaf 81ad2730 82c620e4 85680280 86fad2da 878f718f 88f2f76c 8a9c1eb7 "
        "8dd851c2 8e09e69c 8e39b450 8fd631c9 90fcfb1b 91195d11 911b7d53 919d138e 93783d3a "
        "93aa0888 941913fc 95fab3bc 970515b6 9a7e1a2c 9bd0e9c6 a355b13d a3f8f6ce a44ac360 "
        "a63397c6 a6afe3de a7142bf7 aaeceb15 aca8fd69 b10ec3fc b3fbf88c b570934d bbcd2277 "
        "c0239ec5 c7f89709 c9a008d1 cabe225a cb8cdbe5 cc351c73 d073e61f d13545e5 d87bcb89 "
        "dcba1a08 dcf2c350 dfcfa337 e0568c16 e3acdec2 e6820194 e924b2fa ee9bfa7c f344b2a3 "
        "f60de8bc f62a53ff f6696387 f6b87be3 f97ba01f f993658e fbf5b945 fc4ad594 fff9c5fc",
    "trail":
        "03f5dc19 04aaa2a0 068d117c 0eb9d32c 19f7a82c 1cba657e 1da77c5d 1fdc25aa 247d9c39 "
        "275e3dd5 2a9670cc 2e9d8cca 301dd515 307693f3 319b34cb 398c0f65 3b79cb02 3c4d0b43 "
        "47f81569 510e1fe1 5579413e 57775f88 5a31d7d6 5adfafd0 5fde029f 6058adff 62623e4c "
        "666472b6 7073b159 76558753 81c73826 84024597 8849efd1 887f685d 8a4fd450 8b5129c4 "
        "8b917f0b 8de3e321 90a354d6 93a3a636 94631cd5 946fff6a 97bb3663 9aeb9a49 9e0ea277 "
        "a30fc66a a70d696c ad525ca2 b5d4c788 bb7c0e5e bcb15837 bd5e04a6 c15f086b c1977ade "
        "c19e63a0 c4086b78 c501225d c5da3967 c798e78d c7c7ecfd cbc4d93a d25f7eee d28bce1f "
        "d494ec14 d60cc980 d65f92a2 dca8a295 de63b5b8 e35fce7c ee112c55 eeb3e5a4 ef0cbf83 "
        "f3a718ff fb20f076 fbb3ccce fbf2b5d5",
    "apb_hotpotqa":
        "04087b8f 08452b35 0db9bc57 0f59bf52 10554dd3 1284851d 12df33c5 142e8ff5 14986675 "
        "14b14aa9 1570a8b5 16300c9a 18372a1b 18729549 195c5426 1b94101a 1c8fd71b 1d860f22 "
        "1ec73126 1f849394 2254fb5d 2296fa23 234c0c82 243b72f4 259b6580 2719a8e1 28e3ae86 "
        "2900e3dd 2a0b2850 2e085498 2ede1f79 2f4ecd2e 323ad510 37146e93 39fc5e6a 3f8d23a5 "
        "432fd8a8 43f55a0c 454401f4 4fa1dc88 5015ac4b 5325ca24 5329c629 54e8852e 5541c0b4 "
        "55a21edf 56eb1331 5780e33d 585285d6 58b39a2c 65b3a864 6a2e72e4 6d847bcd 6f225848 "
        "71b57b40 7450670e 75663fe7 7c02b5cd 7e26953a 7ea0ea49 81c21310 831221e2 84000129 "
        "84c0e959 84cdc2c5 8ef1bd06 9213cce6 9261db4f 9289729a 937d5200 93d9f505 94363563 "
        "9640aa34 980f0a0a 9902b0fb 9aeaecab 9c919ee3 a7d911ec a9b2ed11 aa84f881 ab672f5f "
        "ac3811ac b00684e1 b0d6832f b158b11f b22057f8 b8cb6f74 bc656c41 bcf0e9ba bf43304a "
        "bf8eb9e1 c223002a c700c96e c883c8a9 c8a64394 c98715c6 ca6e29d5 cda7478a ce464710 "
        "d061c4bb d0d5c757 d2c013d4 d389c811 d54fddba d80880d3 dd8d1db6 dffbf795 e223ea17 "
        "e38f2033 e49c830c e545600c e85e911e ebca740f f34dcb9c f6616251 f7c60590 f92aa208 "
        "fa51730a fbae4be9 fcd56cf4 fe186fbe",
    "tau_airline":
        "0435f1ef 0535b9df 05737b1f 061372b5 08bc774d 0ed576c5 0fa19057 10cf5240 1553e0b4 "
        "1767506a 1b2df1e2 1d4a878c 1f17c740 20f13da3 21db71e2 226ccc04 253bd59e 2550ce2c "
        "2be7b3a7 2cede5fa 34bc8ef0 351b4262 36d34143 3a8e432a 3d27aeb7 3e67e368 3f874df1 "
        "41d748bd 444e9b37 4b75a6b6 4dad56ec 50745c84 525facbf 5327822c 54acc259 5a651ce7 "
        "5a9ea02a 5b561f20 5c90fa8b 5d38c8b5 5dd0b53b 5e2d9ca1 5f8d1f8a 62e79f9e 66c2c376 "
        "688361da 6bcf9b24 6bde981d 6c6d72ae 6cffc4bd 6e4e5bc4 720dfc40 72fd0819 753d9acc "
        "7585087d 7c4b51df 80280712 82624efd 835f40ad 83c42d23 87daa145 89faa6a4 8edb909c "
        "90f33721 93299f6b 9777f6d9 97fbbbf0 9b39c852 9c1b5576 a3086166 a7b58cfb a810c300 "
        "ab204be7 ac355ec9 ac63269d ae202b51 ae2c341a af726d56 b4f8214b b7d7601b bca15e56 "
        "bcf5f181 bd55a9e0 be6b026e be84459b c05601ea c14831b1 c19885b8 c9b4cc0d cb9a13b1 "
        "d1b84be8 d20a9abd d22a6d23 d4a83fc4 d65c75fa d8bea3f9 d9cef087 dc6d8d0e de700fcb "
        "df06f294 e006b365 e41e9c34 e4d5cdb1 e5bd6c73 e5ea7947 e685cc9e e6c0ea32 ed66119b "
        "ee7dd232 ef9c7d3c f02d4201 f06a37f9 f4552c02 f5314b5b fbb4d5cf fdd93797",
}
# fmt: on
"""By source how the ids of its labelled runs begin: those that signs were chosen, and
weights fitted, in sight of."""
