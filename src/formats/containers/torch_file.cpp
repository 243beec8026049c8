#include "torch_file.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/index.hpp"
#include "core/text.hpp"
#include "io/input_file.hpp"
#include "shardweld/error.hpp"

#include "file_sign.hpp"
#include "pickle.hpp"
#include "pickle_arena.hpp"
#include "range_reader.hpp"
#include "torch_storage.hpp"
#include "zip.hpp"

namespace shardweld::formats {

namespace {

/// How such a file begins: protocol 2, LONG1 of ten bytes, 0x1950a86a20f9469cfc6c.
constexpr std::string_view kStreamMagic =
    "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8"
    "\x50\x19";

// torch 2.15, torch/serialization.py, _legacy_save and _legacy_load.
constexpr std::int64_t kProtocol = 1001;

[[noreturn]] void fail_stream(const std::string& message) {
    throw Error(ErrorCode::corrupt, "torch file (pre-zip): " + message);
}

// The pickle at `position`, whose length nothing tells: reads more and more until it ends.
Pickle next_pickle(RangeReader& reader, Bytes& position) {
    constexpr Bytes kFirst = 16384;
    constexpr Bytes kGrowth = 4;
    const Bytes left = reader.length() - position;
    for (Bytes size = std::min(kFirst, left);; size = std::min(size * kGrowth, left)) {
        try {
            Pickle pickle = Pickle::parse(reader.copy(position, size, "a pickle"));
            position += pickle.consumed();
            return pickle;
        } catch (const PickleCutShort&) {
            if (size == left || size >= kMaxPickleBytes) {
                throw;
            }
        }
    }
}

void check_header(RangeReader& reader, Bytes& position) {
    const Pickle protocol = next_pickle(reader, position);
    if (protocol.root().kind != PickleKind::integer || protocol.root().integer != kProtocol) {
        fail_stream("its protocol is not " + std::to_string(kProtocol));
    }
    const Pickle system = next_pickle(reader, position);
    const PickleValue* const little = system.root().find("little_endian");
    if (little != nullptr && little->kind == PickleKind::boolean && little->integer == 0) {
        throw Error(ErrorCode::unsupported, "torch file (pre-zip): it is big-endian",
                    "save it on a little-endian host");
    }
}

/// What the persistent ids say about every storage.
std::map<std::string_view, StorageId> expected_storages(const Pickle& pickle) {
    std::map<std::string_view, StorageId> expected;
    for (const PickleValue* const persistent : pickle.persistents()) {
        const StorageId id = StorageId::read(*persistent);
        const auto [at, is_new] = expected.emplace(id.key, id);
        if (!is_new && size_of(at->second.dtype) != size_of(id.dtype)) {
            fail_stream("storage '" + std::string(id.key) + "' has two element types");
        }
    }
    return expected;
}

TorchRecords::Record next_storage(RangeReader& reader, Bytes& position, const StorageId& expected,
                                  std::string_view key) {
    const std::string what = "storage '" + printable(key) + "'";
    Index count = 0;
    std::memcpy(&count, reader.at(position, sizeof(count), what).data(), sizeof(count));
    position += sizeof(count);
    if (count != expected.count) {
        fail_stream(what + " has " + std::to_string(count) + " elements, the pickle says " +
                    std::to_string(expected.count));
    }
    const Bytes size = checked_mul_bytes(to_bytes(count, what), size_of(expected.dtype), what);
    if (size > reader.length() - position) {
        fail_stream("the file is truncated: " + what + " needs " + std::to_string(size) +
                    " bytes, " + std::to_string(reader.length() - position) + " are left");
    }
    position += size;
    return {reader.begin() + position - size, size, 0};
}

constexpr Bytes kSniffedBytes = 512;

void check_byte_order(std::string_view order) {
    if (order == "big") {
        throw Error(ErrorCode::unsupported, "torch file: its byteorder record says big",
                    "save it on a little-endian host");
    }
    if (order != "little") {
        fail_torch("its byteorder record holds '" + printable(order) + "', expected little or big");
    }
}

/// data.pkl. `byte_order` gets what the byteorder record holds, which files before torch 2.0 have
/// not. The record follows the pickle as a rule: one read for both.
std::vector<std::byte> read_head(RangeReader& reader, const ZipEntry& pickle, const ZipEntry* order,
                                 std::string& byte_order) {
    constexpr Bytes kMaxText = 64;
    constexpr Bytes kNear = 4096;
    const Bytes end = pickle.offset + pickle.size;
    const auto text_of = [](ByteView bytes) {
        return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    };
    Bytes behind = 0;
    const Bytes order_bytes = order == nullptr ? 0 : std::min(order->size, kMaxText);
    if (order != nullptr && order->offset >= end && order->offset - end < kNear) {
        behind = order->offset - end + order_bytes;
    }
    std::vector<std::byte> bytes = reader.copy(pickle.offset - reader.begin(), pickle.size + behind,
                                               "data.pkl", PickleMemory::spare_bytes());
    if (behind != 0) {
        byte_order = text_of(ByteView(bytes).last(order_bytes));
        bytes.resize(to_size(pickle.size, "data.pkl"));
    } else if (order != nullptr) {
        byte_order = text_of(reader.at(order->offset - reader.begin(), order_bytes, "a record"));
    }
    return bytes;
}

/// The pickle of these bytes.
std::shared_ptr<const Pickle> parsed(std::vector<std::byte> bytes, KnownPickles* known) {
    constexpr std::size_t kMostKnown = 8;
    constexpr std::size_t kMostBytes = 4096;
    if (known == nullptr || bytes.size() > kMostBytes) {
        return std::make_shared<const Pickle>(Pickle::parse(std::move(bytes)));
    }
    const auto same = std::ranges::find_if(*known, [&](const auto& pickle) {
        return std::ranges::equal(std::as_bytes(std::span(pickle->bytes())), bytes);
    });
    if (same == known->end()) {
        known->push_front(std::make_shared<const Pickle>(Pickle::parse(std::move(bytes))));
        known->resize(std::min(known->size(), kMostKnown));
    } else {
        known->splice(known->begin(), *known, same);
    }
    return known->front();
}

void check_no_script(const ZipArchive& archive) {
    const bool is_script = std::ranges::any_of(archive.entries, [&](const NamedZipEntry& named) {
        const std::string_view own = archive.own_name(named.name);
        return own.starts_with("code/") || own == "constants.pkl";
    });
    if (is_script) {
        throw Error(ErrorCode::unsupported, "torch file: it is a TorchScript archive",
                    "save the state_dict instead");
    }
}

}  // namespace

// numbered_.size() for a key that is no such number: "x", "007", one that is too large.
std::size_t TorchRecords::number_of(std::string_view key) const {
    constexpr std::size_t kMostDigits = 9;
    const bool is_short = !key.empty() && key.size() <= kMostDigits;
    if (!is_short || (key.front() == '0' && key.size() > 1)) {
        return numbered_.size();
    }
    std::size_t number = 0;
    for (const char digit : key) {
        if (digit < '0' || digit > '9') {
            return numbered_.size();
        }
        number = number * 10 + static_cast<std::size_t>(digit - '0');
    }
    return std::min(number, numbered_.size());
}

void TorchRecords::add(std::string_view key, const Record& record) {
    if (const std::size_t number = number_of(key); number < numbered_.size()) {
        numbered_[number] = record;
    } else {
        others_.emplace(key, record);
    }
}

const TorchRecords::Record* TorchRecords::find(std::string_view key) const {
    if (const std::size_t number = number_of(key); number < numbered_.size()) {
        return numbered_[number].offset == kAbsent ? nullptr : &numbered_[number];
    }
    return find_value(others_, key);
}

Bytes TorchRecords::bytes() const {
    Bytes sum = 0;
    for (const Record& record : numbered_) {
        sum = checked_add_bytes(sum, record.size, "the size of all storages");
    }
    for (const auto& [key, record] : others_) {
        sum = checked_add_bytes(sum, record.size, "the size of all storages");
    }
    return sum;
}

TorchFile TorchFile::read_bare(std::vector<std::byte> pickle, Bytes bytes) {
    TorchFile torch_file;
    torch_file.pickle_ = std::make_shared<Pickle>(Pickle::parse(std::move(pickle)));
    const auto storages = torch_file.pickle_->persistents();
    if (storages.size() != 1) {
        fail_torch("a tensor alone has " + std::to_string(storages.size()) + " storages");
    }
    torch_file.records_.add(StorageId::read(*storages.front()).key, {0, bytes, 0});
    return torch_file;
}

TorchFile TorchFile::read_archive(RangeReader& reader, bool check_crc, KnownPickles* known) {
    const ZipArchive archive = read_zip(reader);
    const ZipEntry* const pickle = archive.find("data.pkl");
    if (pickle == nullptr || archive.prefix.empty()) {
        fail_torch("the archive holds no data.pkl");
    }
    check_no_script(archive);
    if (pickle->size > kMaxPickleBytes) {
        fail_torch("data.pkl has " + std::to_string(pickle->size) + " bytes, at most " +
                   std::to_string(kMaxPickleBytes) + " are expected");
    }
    check_start(reader.file(), pickle->offset, pickle->size);
    const ZipEntry* const order = archive.find("byteorder");
    std::string byte_order = "little";
    std::vector<std::byte> bytes = read_head(reader, *pickle, order, byte_order);
    if (check_crc) {  // before anything is believed of them
        require_crc32(archive.prefix + "data.pkl", bytes, pickle->crc32);
        require_crc32(archive.prefix + "byteorder", std::as_bytes(std::span(byte_order)),
                      order == nullptr ? 0 : order->crc32);
    }
    check_byte_order(byte_order);
    TorchFile torch_file;
    torch_file.pickle_ = parsed(std::move(bytes), known);
    torch_file.archive_name_ = archive.prefix.substr(0, archive.prefix.size() - 1);
    torch_file.records_.reserve(archive.entries.size());
    for (const auto& [name, entry] : archive.entries) {
        if (const auto own = archive.own_name(name); own.starts_with(kStorages)) {
            torch_file.records_.add(own.substr(kStorages.size()),
                                    {entry.offset, entry.size, entry.crc32});
        }
    }
    torch_file.change_ = changed_since_save(archive, reader);
    return torch_file;
}

// Error(corrupt) when malformed or cut short, Error(unsupported) for a big-endian file.
TorchFile TorchFile::read_stream(RangeReader& reader) {
    Bytes position = kStreamMagic.size() + 1;  // the magic's STOP
    if (reader.length() < position) {
        fail_stream("the file is truncated behind its magic number");
    }
    check_header(reader, position);
    TorchFile torch_file;
    torch_file.pickle_ = std::make_shared<Pickle>(next_pickle(reader, position));
    const auto expected = expected_storages(*torch_file.pickle_);
    const Pickle keys = next_pickle(reader, position);
    if (keys.root().kind != PickleKind::list) {
        fail_stream("the list of its storages is " + describe(keys.root()));
    }
    for (const PickleValue* const key : keys.root().elements()) {
        auto* const found = find_value(expected, key->text());
        if (key->kind != PickleKind::text || found == nullptr) {
            fail_stream("storage '" + printable(key->text()) + "' is not named in the pickle");
        }
        const Record storage = next_storage(reader, position, *found, key->text());
        if (torch_file.records_.find(key->text()) != nullptr) {
            fail_stream("two storages with one key: '" + printable(key->text()) + "'");
        }
        torch_file.records_.add(key->text(), storage);
    }
    return torch_file;
}

TorchFile TorchFile::read(const io::InputFile& file, Bytes begin, std::optional<Bytes> length,
                          bool check_crc, EdgeReads* edges, KnownPickles* known) {
    try {
        if (file.size() == 0 || length == Bytes{0}) {
            fail_torch("it is empty");
        }
        if (begin > file.size()) {
            fail_torch("offset " + std::to_string(begin) + " lies outside the file of " +
                       std::to_string(file.size()) + " bytes");
        }
        RangeReader reader(file, begin, length.value_or(file.size() - begin), edges);
        const auto bytes = reader.at(0, std::min(reader.length(), kSniffedBytes), "the head");
        const std::string_view view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        if (view.starts_with("PK")) {
            return read_archive(reader, check_crc, known);
        }
        const std::string head(view);
        if (head.starts_with(kStreamMagic)) {
            return read_stream(reader);
        }
        if (const FileSign* const sign = sign_of(head, file.path().filename().string())) {
            throw Error(ErrorCode::unsupported,
                        "torch file: it is none, but " + std::string(sign->what),
                        std::string(sign->remedy));
        }
        constexpr std::size_t kShown = 16;
        fail_torch("it begins with '" + printable(head.substr(0, kShown)) +
                   "', expected a zip archive or torch's magic");
    } catch (Error& error) {
        error.add_context("file " + file.path().string() +
                          (length ? " at offset " + std::to_string(begin) : ""));
        throw;
    } catch (const std::bad_alloc&) {
        throw_no_memory(file.path());
    }
}

void TorchFile::require_unchanged() const {
    if (!change_.empty()) {
        throw Error(
            ErrorCode::mismatch,
            "torch file: " + change_ + ": records were exchanged or replaced after torch.save",
            "copy the file again from where it was saved");
    }
}

Bytes TorchFile::storage_bytes() const {
    return records_.bytes();
}

}  // namespace shardweld::formats
