#include "rest_digests.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>

#include "core/text.hpp"
#include "io/digest.hpp"
#include "io/input_file.hpp"
#include "mpi/share.hpp"

namespace shardweld::app {

namespace {

/// Parts of the size that is read at once have a checksum each, and those one of their own.
std::string rest_digest(const io::InputFile& file, const std::vector<plan::OutputRange>& tensors,
                        const std::function<void(Bytes)>& before_part) {
    constexpr Bytes kPart = Bytes{256} << 10U;
    ByteBuffer part;
    ByteBuffer digests;
    for (const plan::OutputRange& gap : plan::without({0, file.size()}, plan::united(tensors))) {
        for (Bytes at = gap.begin; at < gap.end; at += part.size()) {
            part.resize(std::min(kPart, gap.end - at));
            before_part(part.size());
            file.read_at(at, part);
            const io::Digest digest = io::digest_of(part);
            append_all(digests, digest);
        }
    }
    return io::hex(io::digest_of(digests));
}

}  // namespace

std::map<std::string, std::string> rest_digests(const Run& run, const TensorsInFiles& files,
                                                const OpenFile& open,
                                                const mpi::WhyStop& why_stop) {
    mpi::Comm& comm = run.comm;
    std::map<std::string, std::string> mine;
    mpi::run_freely(comm, why_stop, [&](const mpi::OnStep& step) {
        const auto before_part = [&](Bytes bytes) {
            step();
            if (run.throttle) {
                run.throttle->wait_for(bytes);
            }
        };
        int reader = 0;  // ranks take turns
        for (const auto& [name, tensors] : files) {
            const bool is_mine = reader == comm.rank();
            reader = (reader + 1) % comm.size();
            if (!is_mine) {
                continue;
            }
            step();
            if (const auto file = open(name)) {
                mine[name] = rest_digest(*file, tensors, before_part);
            }
        }
    });
    std::map<std::string, std::string> digests;
    for (auto& part : mpi::gather(comm, mine)) {
        digests.merge(part);
    }
    return digests;
}

std::vector<std::string> rest_differences(const std::vector<FileEntry>& reported,
                                          const std::map<std::string, std::string>& found) {
    std::vector<std::string> lines;
    for (const FileEntry& expected : reported) {
        const std::string rest = copy_or(find_value(found, expected.name), "");
        if (expected.rest.empty() || rest == expected.rest) {
            continue;
        }
        lines.push_back("file " + printable(expected.name) +
                        (rest.empty() ? " is missing"
                                      : " has, beside its tensors, bytes of the checksum " + rest +
                                            ", the report says " + printable(expected.rest)));
    }
    return lines;
}

}  // namespace shardweld::app
