#include "shardweld/formats/shared/torch_file.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"

#include "range_reader.hpp"
#include "torch_stream.hpp"
#include "zip_reader.hpp"

namespace shardweld::formats {

namespace {

constexpr Bytes kSniffedBytes = 512;

[[noreturn]] void fail(const std::string& message) {
    throw Error(ErrorCode::corrupt, "torch file: " + message);
}

enum class Container { zip, stream, tar, unknown };

Container sniff(std::string_view head) {
    constexpr std::size_t kTarMagicAt = 257;  // POSIX ustar
    if (head.starts_with("PK")) {
        return Container::zip;
    }
    if (head.starts_with(kStreamMagic)) {
        return Container::stream;
    }
    return head.substr(std::min(head.size(), kTarMagicAt)).starts_with("ustar")
               ? Container::tar
               : Container::unknown;
}

std::string head_text(std::string_view head) {
    constexpr std::size_t kShown = 16;
    return "'" + printable(head.substr(0, kShown)) + "'";
}

std::string record_text(RangeReader& reader, const ZipEntry& entry) {
    constexpr Bytes kMaxText = 64;
    const auto bytes =
        reader.at(entry.offset - reader.begin(), std::min(entry.size, kMaxText), "a record");
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void check_byte_order(RangeReader& reader, const ZipArchive& archive) {
    const ZipEntry* const entry = archive.find(archive.prefix + "byteorder");
    if (entry == nullptr) {
        return;  // before torch 2.0: always little
    }
    const std::string order = record_text(reader, *entry);
    if (order == "big") {
        throw Error(ErrorCode::unsupported,
                    "torch file: its byteorder record says big; save it on a little-endian host");
    }
    if (order != "little") {
        fail("its byteorder record holds '" + printable(order) + "', expected little or big");
    }
}

void check_no_script(const ZipArchive& archive) {
    const std::string code = archive.prefix + "code/";
    const std::string constants = archive.prefix + "constants.pkl";
    const bool is_script = std::any_of(
        archive.entries.begin(), archive.entries.end(), [&](const NamedZipEntry& named) {
            return named.name.starts_with(code) || named.name == constants;
        });
    if (is_script) {
        throw Error(ErrorCode::unsupported,
                    "torch file: it is a TorchScript archive; save the state_dict instead");
    }
}

}  // namespace

TorchFile TorchFile::read_archive(RangeReader& reader) {
    const ZipArchive archive = read_zip(reader);
    const ZipEntry* const pickle = archive.find(archive.prefix + "data.pkl");
    if (pickle == nullptr || archive.prefix.empty()) {
        fail("the archive holds no data.pkl");
    }
    check_no_script(archive);
    check_byte_order(reader, archive);
    if (pickle->size > kMaxPickleBytes) {
        fail("data.pkl has " + std::to_string(pickle->size) + " bytes, at most " +
             std::to_string(kMaxPickleBytes) + " are expected");
    }
    TorchFile torch_file;
    torch_file.pickle_ = std::make_shared<Pickle>(
        Pickle::parse(reader.copy(pickle->offset - reader.begin(), pickle->size, "data.pkl")));
    const std::string folder = archive.prefix + "data/";
    torch_file.records_.reserve(archive.entries.size());
    for (const auto& [name, entry] : archive.entries) {
        if (name.starts_with(folder)) {
            torch_file.records_.add(name.substr(folder.size()),
                                    {entry.offset, entry.size, entry.crc32});
        }
    }
    return torch_file;
}

TorchFile TorchFile::read_stream(RangeReader& reader) {
    TorchStream stream = TorchStream::read(reader);
    TorchFile torch_file;
    torch_file.pickle_ = std::make_shared<Pickle>(std::move(stream.pickle));
    for (auto& [key, storage] : stream.storages) {
        torch_file.records_.add(key, {storage.offset, storage.size, 0});
    }
    return torch_file;
}

TorchFile TorchFile::read(const io::InputFile& file, Bytes begin, std::optional<Bytes> length) {
    try {
        if (file.size() == 0 || length == Bytes{0}) {
            fail("it is empty");
        }
        if (begin > file.size()) {
            fail("offset " + std::to_string(begin) + " lies outside the file of " +
                 std::to_string(file.size()) + " bytes");
        }
        RangeReader reader(file, begin, length.value_or(file.size() - begin));
        const auto bytes = reader.at(0, std::min(reader.length(), kSniffedBytes), "the head");
        const std::string head(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        switch (sniff(head)) {
            case Container::zip:
                return read_archive(reader);
            case Container::stream:
                return read_stream(reader);
            case Container::tar:
                throw Error(ErrorCode::unsupported,
                            "torch file: it is a tar archive (torch before 0.1.10); load and save "
                            "it with a newer torch");
            case Container::unknown:
                break;
        }
        fail("it begins with " + head_text(head) + ", expected a zip archive or torch's magic");
    } catch (Error& error) {
        error.add_context("file " + file.path().string() +
                          (length ? " at offset " + std::to_string(begin) : ""));
        throw;
    }
}

Bytes TorchFile::storage_bytes() const {
    return records_.bytes();
}

}  // namespace shardweld::formats
