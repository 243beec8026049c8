#include "file_sums.hpp"

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

namespace shardweld::app {

namespace {

OpenFile open_written(const Output& output) {
    return [&output](const std::string& name) -> std::optional<io::InputFile> {
        io::require_same_file(*output.directory, name, output.files.at(name));
        return io::InputFile::open(*output.directory, name);
    };
}

/// Files without tensors that a run goes on with: not what a model has beside its weights, which
/// people may change.
std::vector<std::string> beside_states(const Run& run, const Merge& merge, const Output& output) {
    const bool is_training = output.asked().is_training();
    return mpi::share(run.comm, merge.input.home, [&] {
        std::vector<std::string> names;
        for (const io::WrittenFile& file : output.beside) {
            const std::string name = file.name.string();
            if (is_training ? !name.starts_with(publish::kBesideShards)
                            : name == optimizer_file(false)) {
                names.push_back(name);
            }
        }
        return names;
    });
}

std::vector<FileWithTensors> files_with_rest(const Run& run, const Merge& merge,
                                             const Output& output) {
    std::vector<FileWithTensors> files;
    const plan::Plan& plan = output.plan;
    if (output.asked().is_training()) {
        for (const outputs::PlacedFile& file : plan.placement.files) {
            FileWithTensors& with = files.emplace_back();
            with.name = file.name;
            for (const std::uint32_t tensor : file.tensors) {
                const Bytes begin = plan.placement.slots[tensor].offset;
                with.tensors.push_back({begin, begin + plan.tensor(tensor).bytes()});
            }
        }
    }
    for (std::string& name : beside_states(run, merge, output)) {
        files.push_back({std::move(name), {}});
    }
    return files;
}

}  // namespace

void hash_files(const Run& run, const Merge& merge, Output& output, const mpi::WhyStop& why_stop) {
    if (!run.job.run.sha256) {
        return;
    }
    const auto names = [&] {
        std::vector<std::string> all;
        for (const auto& [name, identity] : output.files) {
            all.push_back(name.string());
        }
        return all;
    };
    output.report.files = hash_files(run.comm, merge.input.home, names,
                                     {open_written(output), run.throttle.get(), why_stop,
                                      shown(*run.progress, "hashing files")});
    run.watch->lap("sha256");
}

void sum_rests(const Run& run, const Merge& merge, Output& output, const mpi::WhyStop& why_stop) {
    const std::vector<FileWithTensors> files = files_with_rest(run, merge, output);
    if (files.empty()) {
        return;
    }
    const auto digests =
        rest_digests(run.comm, files, {open_written(output), run.throttle.get(), why_stop, {}});
    std::map<std::string, std::size_t> known;
    std::vector<FileEntry>& entries = output.report.files;
    for (const std::size_t at : indices(entries)) {
        known.emplace(entries[at].name, at);
    }
    for (const std::size_t at : indices(files)) {
        const auto [found, is_new] = known.emplace(files[at].name, entries.size());
        if (is_new) {
            entries.push_back({files[at].name, output.files.at(files[at].name).size, {}});
        }
        entries[found->second].rest = digests[at];
    }
    run.watch->lap("rest");
}

}  // namespace shardweld::app
