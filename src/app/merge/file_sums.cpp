#include "file_sums.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/family/optimizer_text.hpp"
#include "app/report/file_hashes.hpp"
#include "app/report/rest_digests.hpp"
#include "io/input_file.hpp"
#include "io/written.hpp"
#include "mpi/share.hpp"
#include "publish/assets.hpp"

#include "moving.hpp"

namespace shardweld::app {

namespace {

OpenFile open_written(const Draft& draft) {
    return [&draft](const std::string& name) -> std::optional<io::InputFile> {
        io::require_same_file(*draft.directory, name, draft.files.at(name));
        return io::InputFile::open(*draft.directory, name);
    };
}

/// Files without tensors that a run goes on with: not what a model has beside its weights, which
/// people may change.
std::vector<std::string> beside_states(const Draft& draft) {
    const bool is_training = draft.output.session.output.is_training();
    return mpi::share(draft.output.session.comm, draft.planned.input.home, [&] {
        std::vector<std::string> names;
        for (const io::WrittenFile& file : draft.made.beside) {
            const std::string name = file.name.string();
            if (is_training ? !name.starts_with(publish::kBesideShards)
                            : name == optimizer_file(false)) {
                names.push_back(name);
            }
        }
        return names;
    });
}

std::vector<FileWithTensors> files_with_rest(const Draft& draft) {
    std::vector<FileWithTensors> files;
    const plan::Plan& plan = draft.output.plan;
    if (draft.output.session.output.is_training()) {
        for (const outputs::PlacedFile& file : plan.placement.files) {
            FileWithTensors& with = files.emplace_back();
            with.name = file.name;
            for (const std::uint32_t tensor : file.tensors) {
                const Bytes begin = plan.placement.slots[tensor].offset;
                with.tensors.push_back({begin, begin + plan.tensor(tensor).bytes()});
            }
        }
    }
    for (std::string& name : beside_states(draft)) {
        files.push_back({std::move(name), {}});
    }
    return files;
}

}  // namespace

void hash_files(const Draft& draft, const mpi::WhyStop& why_stop) {
    const Session& session = draft.output.session;
    if (!session.job.run.sha256) {
        return;
    }
    const auto names = [&] {
        std::vector<std::string> all;
        for (const auto& [name, identity] : draft.files) {
            all.push_back(name.string());
        }
        return all;
    };
    session.report.files = hash_files(session.comm, draft.planned.input.home, names,
                                      {open_written(draft), session.throttle.get(), why_stop,
                                       shown(session.progress, "hashing files")});
    session.watch.lap("sha256");
}

void sum_rests(const Draft& draft, const mpi::WhyStop& why_stop) {
    const Session& session = draft.output.session;
    const std::vector<FileWithTensors> files = files_with_rest(draft);
    if (files.empty()) {
        return;
    }
    const auto digests = rest_digests(session.comm, files,
                                      {open_written(draft), session.throttle.get(), why_stop, {}});
    std::map<std::string, std::size_t> known;
    std::vector<FileEntry>& entries = session.report.files;
    for (std::size_t at = 0; at < entries.size(); ++at) {
        known.emplace(entries[at].name, at);
    }
    for (std::size_t at = 0; at < files.size(); ++at) {
        const auto [found, is_new] = known.emplace(files[at].name, entries.size());
        if (is_new) {
            entries.push_back({files[at].name, draft.files.at(files[at].name).size, {}});
        }
        entries[found->second].rest = digests[at];
    }
    session.watch.lap("rest");
}

}  // namespace shardweld::app
