#include "file_sums.hpp"

#include <optional>
#include <string>
#include <vector>

#include "app/binding/optimizer_text.hpp"
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

/// Files of tensors that hold more.
TensorsInFiles files_with_rest(const Output& output) {
    TensorsInFiles files;
    const plan::Plan& plan = output.plan;
    for (const outputs::PlacedFile& file : plan.placement.files) {
        std::vector<plan::OutputRange>& tensors = files[file.name];
        for (const std::uint32_t tensor : file.tensors) {
            const Bytes begin = plan.placement.slots[tensor].offset;
            tensors.push_back({begin, begin + plan.tensor(tensor).bytes()});
        }
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
    output.report.files = hash_files(run, merge.input.home, names, open_written(output), why_stop);
    run.watch->lap("sha256");
}

void sum_rests(const Run& run, const Merge& merge, Output& output, const mpi::WhyStop& why_stop) {
    TensorsInFiles files =
        output.asked().is_training() ? files_with_rest(output) : TensorsInFiles();
    std::vector<FileEntry>& entries = output.report.files;
    for (const std::string& name : beside_states(run, merge, output)) {
        files[name] = {};
        if (find_item(entries, name, &FileEntry::name) == nullptr) {
            entries.push_back({name, output.files.at(name).size, {}});
        }
    }
    if (files.empty()) {
        return;
    }
    const auto digests = rest_digests(run, files, open_written(output), why_stop);
    for (FileEntry& entry : entries) {
        entry.rest = copy_or(find_value(digests, entry.name), entry.rest);
    }
    run.watch->lap("rest");
}

}  // namespace shardweld::app
