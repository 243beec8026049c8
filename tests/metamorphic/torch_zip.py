"""torch's zip archives in files: where records, headers and checksums are, exchanged records, checksums made right. Source: PKWARE's APPNOTE 6.3.9;
torch 2.x, caffe2/serialize/inline_container.cc (writeSerializationId)."""
import re
import struct
import zlib
from dataclasses import dataclass

_MASK = (1 << 64) - 1
_START = b"PK\3\4"


@dataclass(frozen=True)
class Record:
    name: str
    header: int         # where the local header begins
    lo: int             # bytes of the record: [lo, hi)
    hi: int
    end: int            # where what follows begins
    central: int        # where the entry of the central directory begins
    central_end: int
    crc_at: tuple       # where its CRC-32 stands


@dataclass(frozen=True)
class Archive:
    lo: int
    hi: int
    directory: int
    records: tuple


def find(data):
    """All archives in a file, one after the other: a torch file, or the blobs of a .distcp file. Empty for other files."""
    archives, lo = [], 0
    while data[lo:lo + 4] == _START:
        end = _end_of(data, lo)
        if end is None:
            return archives
        archive = _parsed(data, lo, end)
        archives.append(archive)
        lo = archive.hi
    return archives


def _end_of(data, lo):
    """Where the end record is whose archive begins at `lo`."""
    at = data.find(b"PK\5\6", lo)
    while at >= 0:
        size, offset = struct.unpack_from("<II", data, at + 12)
        behind = at
        if data[at - 20:at - 16] == b"PK\6\7":  # zip64: locator and record before it
            behind = at - 20 - 56
            if data[behind:behind + 4] == b"PK\6\6":
                size, offset = struct.unpack_from("<QQ", data, behind + 40)
            else:
                behind = at
        if lo + offset + size == behind and data[lo + offset:lo + offset + 4] == b"PK\1\2":
            return at
        at = data.find(b"PK\5\6", at + 1)
    return None


def _parsed(data, lo, end):
    n, size, offset = struct.unpack_from("<HII", data, end + 10)
    if data[end - 20:end - 16] == b"PK\6\7" and data[end - 76:end - 72] == b"PK\6\6":
        n, size, offset = struct.unpack_from("<QQQ", data, end - 76 + 32)
    directory, at, entries = lo + offset, lo + offset, []
    for _ in range(n):
        crc, packed, _, n_name, n_extra, n_comment = struct.unpack_from("<IIIHHH", data, at + 16)
        (header,) = struct.unpack_from("<I", data, at + 42)
        name = data[at + 46:at + 46 + n_name].decode(errors="replace")
        central_end = at + 46 + n_name + n_extra + n_comment
        if 0xFFFFFFFF in (packed, header):
            packed, header = _zip64(data[at + 46 + n_name:at + 46 + n_name + n_extra], packed, header, struct.unpack_from("<I", data, at + 24)[0])
        entries.append((name, lo + header, packed, crc, at, central_end))
        at = central_end
    starts = sorted(header for _, header, *_ in entries) + [directory]
    records = []
    for name, header, packed, crc, central, central_end in entries:
        n_name, n_extra = struct.unpack_from("<HH", data, header + 26)
        begin = header + 30 + n_name + n_extra
        end_of_record = starts[starts.index(header) + 1]
        crc_at = [central + 16]
        for spot in (header + 14, begin + packed + 4 if data[begin + packed:begin + packed + 4] == b"PK\7\x08" else None):
            if spot and struct.unpack_from("<I", data, spot)[0] == crc:
                crc_at.append(spot)
        records.append(Record(name, header, begin, begin + packed, end_of_record, central, central_end, tuple(crc_at)))
    (n_comment,) = struct.unpack_from("<H", data, end + 20)
    return Archive(lo, end + 22 + n_comment, directory, tuple(records))


def _zip64(extra, packed, header, size):
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        if kind == 1:
            numbers = list(struct.unpack_from(f"<{length // 8}Q", extra, at + 4))
            if size == 0xFFFFFFFF:
                numbers.pop(0)
            if packed == 0xFFFFFFFF:
                packed = numbers.pop(0)
            if header == 0xFFFFFFFF:
                header = numbers.pop(0)
        at += 4 + length
    return packed, header


def tensors(archive):
    """Records that hold tensors."""
    return [record for record in archive.records if re.search(r"/data/[^/]+$", record.name)]


def exchange(data, one, other, with_crc):
    """The bytes of two records of equal size change places, their checksums with them or not."""
    made = bytearray(data)
    made[one.lo:one.hi], made[other.lo:other.hi] = data[other.lo:other.hi], data[one.lo:one.hi]
    if with_crc:
        for record in (one, other):
            _put_crc(made, record)
    return bytes(made)


def exchange_names(data, one, other):
    """Two records of equally long names change names, in local headers and in the directory."""
    made = bytearray(data)
    for record, name in ((one, other.name), (other, one.name)):
        for at in (record.header + 30, record.central + 46):
            made[at:at + len(name)] = name.encode()
    return bytes(made)


def _put_crc(made, record):
    crc = struct.pack("<I", zlib.crc32(made[record.lo:record.hi]))
    for at in record.crc_at:
        made[at:at + 4] = crc


def seal(made, archive):
    """Makes all checksums of an archive right, in place, and the serialization id: 20 digits of the names' hash, which stay, and 20 digits of the
    records' CRC-32 combined in the order they were written."""
    combined, last = 0, None
    for record in sorted(archive.records, key=lambda record: record.header):
        if record.name.endswith("/.data/serialization_id"):
            last = record
            continue
        _put_crc(made, record)
        combined ^= (zlib.crc32(made[record.lo:record.hi]) + 0x9E3779B9 + (combined << 6) + (combined >> 2)) & _MASK
    if last is not None and last.hi - last.lo == 40:
        made[last.lo + 20:last.hi] = str(combined).zfill(20).encode()
        _put_crc(made, last)
