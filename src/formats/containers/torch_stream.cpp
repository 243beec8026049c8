#include "torch_stream.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "pickle_bytes.hpp"
#include "torch_storage.hpp"

namespace shardweld::formats {

namespace {

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

/// What the persistent ids say about every storage: the size of an element and their number.
struct Expected {
    Bytes element_bytes = 0;
    Index count = 0;
};

std::map<std::string_view, Expected> expected_storages(const Pickle& pickle) {
    std::map<std::string_view, Expected> expected;
    for (const PickleValue* const persistent : pickle.persistents()) {
        const StorageId id = StorageId::read(*persistent);
        const Expected found{size_of(id.dtype), id.count};
        const auto [at, is_new] = expected.emplace(id.key, found);
        if (!is_new && at->second.element_bytes != found.element_bytes) {
            fail_stream("storage '" + std::string(id.key) + "' has two element types");
        }
    }
    return expected;
}

TorchStream::Storage next_storage(RangeReader& reader, Bytes& position, const Expected& expected,
                                  std::string_view key) {
    const std::string what = "storage '" + printable(key) + "'";
    Index count = 0;
    std::memcpy(&count, reader.at(position, sizeof(count), what).data(), sizeof(count));
    position += sizeof(count);
    if (count != expected.count) {
        fail_stream(what + " has " + std::to_string(count) + " elements, the pickle says " +
                    std::to_string(expected.count));
    }
    const Bytes size = checked_mul_bytes(to_bytes(count, what), expected.element_bytes, what);
    if (size > reader.length() - position) {
        fail_stream("the file is truncated: " + what + " needs " + std::to_string(size) +
                    " bytes, " + std::to_string(reader.length() - position) + " are left");
    }
    const TorchStream::Storage storage{reader.begin() + position, size};
    position += size;
    return storage;
}

}  // namespace

TorchStream TorchStream::read(RangeReader& reader) {
    Bytes position = kStreamMagic.size() + 1;  // the magic's STOP
    if (reader.length() < position) {
        fail_stream("the file is truncated behind its magic number");
    }
    check_header(reader, position);
    TorchStream stream{next_pickle(reader, position), {}};
    const auto expected = expected_storages(stream.pickle);
    const Pickle keys = next_pickle(reader, position);
    if (keys.root().kind != PickleKind::list) {
        fail_stream("the list of its storages is " + describe(keys.root()));
    }
    for (const PickleValue* const key : keys.root().elements()) {
        const auto found = expected.find(key->text());
        if (key->kind != PickleKind::text || found == expected.end()) {
            fail_stream("storage '" + printable(key->text()) + "' is not named in the pickle");
        }
        const Storage storage = next_storage(reader, position, found->second, key->text());
        if (!stream.storages.emplace(key->text(), storage).second) {
            fail_stream("two storages with one key: '" + printable(key->text()) + "'");
        }
    }
    return stream;
}

}  // namespace shardweld::formats
