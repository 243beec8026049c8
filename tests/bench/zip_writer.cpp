#include "zip_writer.hpp"

#include <algorithm>
#include <array>

#include "core/crc32.hpp"

namespace shardweld::bench {

void ZipWriter::begin_entry(const std::string& name, Bytes size) {
    entries_.push_back({name, file_.position() - begin_, size, 0});
    file_.write(outputs::torch::zip_header(entries_.back()));
}

void ZipWriter::end_entry(std::uint32_t crc32) {
    entries_.back().crc32 = crc32;
    file_.write(outputs::torch::zip_descriptor(entries_.back()));
}

void ZipWriter::add(const std::string& name, std::string_view content) {
    begin_entry(name, content.size());
    file_.write(content);
    end_entry(crc32(std::as_bytes(std::span(content))));
}

void ZipWriter::add(const std::string& name, Bytes size,
                    const std::function<void(std::span<std::byte>)>& produce) {
    // Whole elements at a time, whatever the position; small enough to stay in the cache.
    constexpr Bytes kStep = Bytes{1} << 18U;
    begin_entry(name, size);
    std::uint32_t sum = 0;
    while (size != 0) {
        const auto room = file_.room();
        const auto whole = std::min<Bytes>({room.size() & ~std::size_t{7}, size, kStep});
        if (whole == 0) {
            std::array<std::byte, 8> few{};
            const auto part = std::span(few).first(std::min<Bytes>(few.size(), size));
            produce(part);
            sum = crc32(part, sum);
            file_.write(part);
            size -= part.size();
            continue;
        }
        const auto part = room.first(whole);
        produce(part);
        sum = crc32(part, sum);
        file_.commit(part.size());
        size -= part.size();
    }
    end_entry(sum);
}

void ZipWriter::add_hole(const std::string& name, Bytes size) {
    begin_entry(name, size);
    file_.skip(size);
    end_entry(0);
}

void ZipWriter::finish() {
    const Bytes directory = file_.position() - begin_;
    for (const outputs::torch::ZipRecord& entry : entries_) {
        file_.write(outputs::torch::zip_central(entry));
    }
    const Bytes end = file_.position() - begin_;
    file_.write(outputs::torch::zip_end(directory, end, entries_.size()));
}

}  // namespace shardweld::bench
