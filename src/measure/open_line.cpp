#include "open_line.hpp"

#include "io/input_file.hpp"
#include "io/output_file.hpp"
#include "shardweld/error.hpp"

namespace shardweld::measure {

const io::InputFile& LineReader::file(std::size_t at) {
    if (!open_.is_open() || at != at_) {
        open_ = io::InputFile::open(line_.files()[at].path);
        at_ = at;
        if (open_.size() != line_.files()[at].size) {
            throw Error(ErrorCode::corrupt,
                        open_.path().string() + " has changed while it was being measured: " +
                            std::to_string(open_.size()) + " bytes, " +
                            std::to_string(line_.files()[at].size) + " at the start");
        }
    }
    return open_;
}

void LineReader::read(Bytes position, std::span<std::byte> out) {
    for (const FilePart& part : line_.parts({position, position + out.size()}, out.size())) {
        file(part.file).read_at(part.offset, out.subspan(part.line_begin - position, part.size));
    }
}

void LineWriter::create(std::size_t first, std::size_t every) const {
    for (std::size_t at = first; at < line_.files().size(); at += every) {
        const LineFile& file = line_.files()[at];
        io::OutputFile out = io::OutputFile::create(file.path);
        out.resize(file.size);
        out.reserve(file.size);
        out.close();
    }
}

void LineWriter::write(const FilePart& part, std::span<const std::byte> bytes) {
    auto found = open_.find(part.file);
    if (found == open_.end()) {
        const auto& path = line_.files()[part.file].path;
        found = open_.emplace(part.file, OpenTarget{io::OutputFile::open_existing(path), {}}).first;
    }
    OpenTarget& open = found->second;
    open.file.write_at(part.offset, bytes);
    if (is_behind_) {
        open.behind.add(open.file, part.offset, bytes.size());
    }
}

void LineWriter::finish(bool sync) {
    for (auto& [at, open] : open_) {
        if (sync) {
            open.behind.finish(open.file);
            open.file.sync();
        }
        open.file.close();
    }
    open_.clear();
}

}  // namespace shardweld::measure
