#include "archive.hpp"

#include <utility>

#include "core/crc32.hpp"
#include "core/text.hpp"

namespace shardweld::outputs::torch {

namespace {

/// FNV-1a: the same on every machine.
std::uint64_t hash_of(const std::string& text) {
    std::uint64_t hash = 0xcbf29ce484222325U;
    for (const char letter : text) {
        hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3U;
    }
    return hash;
}

}  // namespace

std::string serialization_half(std::uint64_t hash) {
    return zero_filled(std::to_string(hash), 20);
}

void TorchPickle::add_tensor(DType dtype, std::span<const Index> shape, Storage storage) {
    put_tensor(pickle, dtype, shape, storages_.size());
    storages_.push_back(std::move(storage));
}

Archive::Archive(const std::string& name, const TorchPickle& content) {
    const std::string prefix = name + "/";
    const std::string pickle = content.pickle.finish();
    records_.reserve(content.storages().size() + kRecordsBefore.size() + 3);
    add(prefix + "data.pkl", pickle);
    for (const FixedRecord& record : kRecordsBefore) {
        add(prefix + std::string(record.name), record.content);
    }
    for (const std::size_t i : indices(content.storages())) {
        add(prefix + "data/" + std::to_string(i), content.storages()[i]);
    }
    add(prefix + std::string(kVersionRecord.name), kVersionRecord.content);
    // torch names an archive by a hash of its records' names and, behind it, one of their
    // checksums. Those of tensors are not known yet, and no loader asks: there is no second half.
    add(prefix + std::string(kSerializationId), serialization_half(hash_of(pickle)));
    directory_ = size_;
    for (const ArchiveRecord& record : records_) {
        size_ += record.entry.central_size();
    }
    size_ += zip_end(directory_, size_, records_.size()).size();
}

void Archive::add(std::string name, const Storage& storage) {
    ArchiveRecord record{
        {std::move(name), size_, storage.size, 0}, storage.content, storage.tensor};
    if (!record.tensor) {
        record.entry.crc32 = crc32(std::as_bytes(std::span(record.content)));
    }
    size_ = record.entry.end();
    records_.push_back(std::move(record));
}

void Archive::add(std::string name, std::string_view content) {
    add(std::move(name), {content.size(), std::nullopt, std::string(content)});
}

void Archive::put_frame(Bytes begin, FrameBytes& out) const {
    for (const ArchiveRecord& record : records_) {
        out.add_bytes(begin + record.entry.offset, zip_header(record.entry));
        out.add_bytes(begin + record.entry.data(), record.content);
        const Bytes end = begin + record.entry.data() + record.entry.size;
        out.add_bytes(end, zip_descriptor(record.entry));
        if (record.tensor) {
            out.put_checksum(*record.tensor, end + kDescriptorChecksum);
        }
    }
    put_directory(begin, out);
}

void Archive::put_directory(Bytes begin, FrameBytes& out) const {
    Bytes at = directory_;
    for (const ArchiveRecord& record : records_) {
        const std::string central = zip_central(record.entry);
        out.add_bytes(begin + at, central);
        if (record.tensor) {
            out.put_checksum(*record.tensor, begin + at + kCentralChecksum);
        }
        at += central.size();
    }
    out.add_bytes(begin + at, zip_end(directory_, at, records_.size()));
}

std::string archive_name(std::string_view file) {
    const std::string_view name = file.substr(file.find_last_of('/') + 1);
    return std::string(name.substr(0, name.find_last_of('.')));
}

}  // namespace shardweld::outputs::torch
