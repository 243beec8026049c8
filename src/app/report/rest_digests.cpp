#include "rest_digests.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <utility>

#include "core/text.hpp"
#include "io/digest.hpp"
#include "io/input_file.hpp"
#include "mpi/share.hpp"

namespace shardweld::app {

namespace {

/// Parts of the size that is read at once have a checksum each, and those one of their own.
std::string rest_digest(const io::InputFile& file, const FileWithTensors& parts,
                        const std::function<void(Bytes)>& before_part) {
    constexpr Bytes kPart = Bytes{256} << 10U;
    std::vector<std::byte> part;
    std::vector<std::byte> digests;
    for (const plan::OutputRange& gap :
         plan::without({0, file.size()}, plan::united(parts.tensors))) {
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

std::vector<std::string> rest_digests(mpi::Comm& comm, const std::vector<FileWithTensors>& files,
                                      const Hashing& hashing) {
    std::map<std::size_t, std::string> mine;
    mpi::run_freely(comm, hashing.why_stop, [&](const mpi::OnStep& step) {
        const auto before_part = [&](Bytes bytes) {
            step();
            if (hashing.throttle != nullptr) {
                hashing.throttle->wait_for(bytes);
            }
        };
        for (auto at = static_cast<std::size_t>(comm.rank()); at < files.size();
             at += static_cast<std::size_t>(comm.size())) {
            step();
            if (const auto file = hashing.open(files[at].name)) {
                mine[at] = rest_digest(*file, files[at], before_part);
            }
        }
    });
    std::vector<std::string> digests(files.size());
    for (auto& part : mpi::gather(comm, mine)) {
        for (auto& [file, digest] : part) {
            digests[file] = std::move(digest);
        }
    }
    return digests;
}

std::vector<std::string> rest_differences(const std::vector<FileEntry>& reported,
                                          const std::vector<FileEntry>& found) {
    std::map<std::string, std::string> there;
    for (const FileEntry& file : found) {
        there[file.name] = file.rest;
    }
    std::vector<std::string> lines;
    for (const FileEntry& expected : reported) {
        const std::string& rest = there[expected.name];
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
