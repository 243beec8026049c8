#include "stated_sums.hpp"

#include <utility>

#include "containers/dcp_metadata.hpp"
#include "core/in_context.hpp"
#include "io/input_file.hpp"
#include "shardweld/error.hpp"
#include "shared/directory_listing.hpp"

namespace shardweld::formats {

namespace {

constexpr std::uint32_t kArchive = 0x04034b50;  // how a zip begins

std::uint32_t number_at(const io::InputFile& file, Bytes offset) {
    std::uint32_t number = 0;
    file.read_at(offset, std::as_writable_bytes(std::span(&number, 1)));
    return number;
}

bool is_archive(const io::InputFile& file, Bytes begin) {
    return file.size() >= begin + sizeof(kArchive) && number_at(file, begin) == kArchive;
}

void add_sums(const io::InputFile& file, Bytes begin, Bytes size, FileSums& sums) {
    if (!is_archive(file, begin)) {
        return;
    }
    const ZipArchive archive = ZipArchive::read(file, begin, size);
    for (const auto& [name, entry] : archive.entries) {
        if (entry.crc32 == 0) {
            continue;
        }
        for (const Bytes place : entry.sums) {
            if (number_at(file, place) != entry.crc32) {
                throw Error(ErrorCode::unsupported,
                            "the archive states the checksum of its record " +
                                printable(std::string(name)) + " where torch.save does not",
                            "give a template that torch.save wrote");
            }
        }
        sums.records.push_back(entry);
    }
    if (auto place = fingerprint_in(archive)) {
        sums.fingerprints.push_back(*std::move(place));
    }
}

}  // namespace

StatedSums::StatedSums(const fs::path& directory) : directory_(directory) {
    for (const std::string& name : list_directory(directory).files) {
        if (name.ends_with(".metadata")) {  // or one for each rank
            has_index_ = true;
            add_index(DcpMetadata::read(directory / name));
        }
    }
}

void StatedSums::add_index(const DcpMetadata& metadata) {
    for (const DcpTensor& tensor : metadata.tensors) {
        for (const DcpChunk& chunk : tensor.chunks) {
            archives_[metadata.files.at(chunk.file).path].emplace_back(chunk.offset, chunk.length);
        }
    }
}

FileSums StatedSums::of(const std::string& file) const {
    const io::InputFile opened = io::InputFile::open(directory_ / file);
    FileSums sums;
    in_context("file ", file, [&] {
        if (!has_index_) {
            add_sums(opened, 0, opened.size(), sums);
            return;
        }
        auto* const found = find_value(archives_, file);
        if (found != nullptr) {
            for (const auto& [begin, size] : *found) {
                add_sums(opened, begin, size, sums);
            }
        }
    });
    opened.require_unchanged();
    return sums;
}

}  // namespace shardweld::formats
