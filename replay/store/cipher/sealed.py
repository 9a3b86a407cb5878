"""The pages of an encrypted database, opened one by one: what is left of it although others are
damaged.

SQLCipher gives up a file at its first page. Here each is read by itself: behind the cipher of a
page (AES-256, CBC) stand the random bytes it began with, and a seal (HMAC-SHA512) over both and the
number of the page. A page whose seal does not hold is damaged, all of it. The salt in the first 16
bytes of the file is a part of the key: without it nothing can be read.
"""

from __future__ import annotations

import hashlib
import hmac
from functools import lru_cache
from pathlib import Path
from typing import Any

from typing_extensions import override

from replay.errors import StoreUnusable
from replay.store.cipher import crypt, keys
from replay.store.cipher.crypt import MAGIC, PAGE_BYTES, SALT_BYTES
from replay.store.rescue.pages import Damaged, Pages

START_BYTES, SEAL_BYTES = 16, 64
RESERVED_BYTES = START_BYTES + SEAL_BYTES

_SEAL_ITERATIONS = 2
_SEAL_MASK = 0x3A
_KEPT_PAGES = 256
_TRIED_PAGES = 64


class SealedPages(Pages):
    """The pages of an encrypted file, plain.

    Raises Damaged where the file has none at all, StoreUnusable where no key is known, where it
    opens none of them, or where the package is lacking that can.
    """

    def __init__(self, path: Path) -> None:
        salt = crypt.look_again(path)
        assert salt is not None, "is asked before"
        found = keys.find(path, salt)
        self._aes = _aes(path)
        self._key = bytes.fromhex(keys.derived(found.key, salt)[2:66])
        masked = bytes(byte ^ _SEAL_MASK for byte in salt)
        self._seal = hashlib.pbkdf2_hmac("sha512", self._key, masked, _SEAL_ITERATIONS, 32)
        super().__init__(path, size=PAGE_BYTES, reserved=RESERVED_BYTES)
        self._kept = lru_cache(_KEPT_PAGES)(self._opened)
        if not any(map(self._opens, range(1, min(self.count, _TRIED_PAGES) + 1))):
            raise StoreUnusable(
                f"{path}: {found.where} opens none of its pages",
                "give the right one; where it is that, the beginning of the file is gone, and"
                " nothing can be read without it",
            )
        keys.remember(salt, found.key)

    def _opens(self, number: int) -> bool:
        try:
            self.page(number)
        except Damaged:
            return False
        return True

    @override
    def page(self, number: int) -> bytes:
        return self._kept(number)

    def _opened(self, number: int) -> bytes:
        raw = super().page(number)
        begin, end = SALT_BYTES if number == 1 else 0, self.usable
        sealed = raw[begin : end + START_BYTES] + number.to_bytes(4, "little")
        seal = hmac.digest(self._seal, sealed, "sha512")
        if not hmac.compare_digest(seal, raw[end + START_BYTES : end + RESERVED_BYTES]):
            raise Damaged(number, "is not as it was sealed")
        plain: bytes = self._aes(self._key, raw[end : end + START_BYTES], raw[begin:end])
        return MAGIC[:begin] + plain + raw[end:]


def pages_of(path: Path) -> Pages:
    """The pages of a file, encrypted or not. Raises as `Pages` and `SealedPages`."""
    return Pages(path) if crypt.look_again(path) is None else SealedPages(path)


def _aes(path: Path) -> Any:
    """What decrypts: (key, the bytes it began with, cipher) to plain bytes."""
    try:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    except ModuleNotFoundError as error:
        raise StoreUnusable(
            f"{path}: to read what is left of an encrypted database needs cryptography, which is"
            " not installed",
            "install it: pip install 'arc-tui[crypt]'",
        ) from error

    def plain(key: bytes, start: bytes, cipher: bytes) -> bytes:
        opened = Cipher(algorithms.AES(key), modes.CBC(start)).decryptor()
        return opened.update(cipher) + opened.finalize()

    return plain
