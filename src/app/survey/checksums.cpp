#include "checksums.hpp"

#include "shardweld/catalogue/catalogue.hpp"
#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"
#include "shardweld/formats/containers/zip.hpp"
#include "shardweld/io/input_file.hpp"
#include "shardweld/io/whole_file.hpp"

namespace shardweld::app {

namespace {

/// The name of the record that lies there, for a message; an archive inside a larger file is not
/// looked into.
std::string record_at(const fs::path& path, Bytes offset) {
    try {
        const io::InputFile file = io::InputFile::open(path);
        const auto archive = formats::ZipArchive::read(file, 0, file.size());
        for (const formats::NamedZipEntry& entry : archive.entries) {
            if (entry.entry.offset == offset) {
                return "record " + printable(std::string(entry.name)) + " ";
            }
        }
    } catch (const Error&) {
        // The bytes are named anyway.
    }
    return "the record ";
}

}  // namespace

std::shared_ptr<execute::RecordSums> record_sums(const fs::path& directory,
                                                 const catalogue::Catalogue& catalogue) {
    catalogue::Records records = catalogue::records_of(catalogue);
    const auto name_of = [directory, files = catalogue.files,
                          tensors = records.tensors](const catalogue::Record& record) {
        const fs::path path = directory / files[record.file].path;
        return path.string() + ": " + record_at(path, record.offset) + "(" +
               std::to_string(record.bytes) + " bytes at " + std::to_string(record.offset) +
               ", tensor " + printable(tensors[record.tensor]) + ")";
    };
    return std::make_shared<execute::RecordSums>(std::move(records), name_of);
}

std::string text_of(const execute::RecordCounts& counts, CheckCrc when) {
    if (counts.checked == 0 && counts.unchecked == 0) {
        return when == CheckCrc::before ? "--check_crc: no file states a CRC-32" : "";
    }
    std::string text = "the CRC-32 of " + std::to_string(counts.checked) + " records (" +
                       human_bytes(counts.checked_bytes) + ") and of their metadata is right";
    if (counts.without > 0) {
        text += "; " + std::to_string(counts.without) + " state none";
    }
    if (counts.unchecked > 0) {
        text += "; " + std::to_string(counts.unchecked) + " (" +
                human_bytes(counts.unchecked_bytes) +
                ") were read only in part and not checked: --check_crc before reads them in full";
    }
    return text;
}

}  // namespace shardweld::app
