#include "report.hpp"

#include <set>

#include "catalogue/catalogue.hpp"
#include "plan/plan.hpp"
#include "plan/schedule/footprint.hpp"

namespace shardweld::app {

namespace {

std::vector<std::string> sources_of(const plan::Target& target,
                                    const std::vector<catalogue::File>& files) {
    std::set<std::uint32_t> used;
    for (const plan::Operand& operand : target.operands) {
        used.insert(operand.file);
    }
    std::vector<std::string> paths;
    paths.reserve(used.size());
    for (const std::uint32_t file : used) {
        paths.push_back(files.at(file).path);
    }
    return paths;
}

}  // namespace

std::vector<TensorEntry> tensor_entries(const plan::Plan& plan,
                                        const std::vector<catalogue::File>& files,
                                        const execute::Result& result) {
    const std::vector<std::string>& digests = result.tensor_digests;
    std::vector<TensorEntry> entries;
    entries.reserve(plan.targets.size());
    for (std::size_t i = 0; i < plan.targets.size(); ++i) {
        const plan::Target& target = plan.targets[i];
        const outputs::Slot& slot = plan.placement.slots[i];
        entries.push_back({target.name, target.dtype, target.shape,
                           plan.placement.files[slot.file].name, slot.offset, target.bytes(),
                           i < digests.size() ? digests[i] : "", sources_of(target, files)});
        const Bytes block =
            static_cast<Bytes>(plan::block_elements(target)) * size_of(target.dtype);
        entries.back().block = block == plan::kDigestBlock ? 0 : block;
        if (const auto at = result.quality.find(static_cast<std::uint32_t>(i));
            at != result.quality.end()) {
            entries.back().encoding = facts_of(target.quantised->encoding).name;
            entries.back().quality = at->second;
        }
    }
    return entries;
}

void describe_input(Report& report, const fs::path& directory,
                    const catalogue::Catalogue& catalogue) {
    report.input_directory = directory.string();
    report.input_format = catalogue.format;
    report.facts = catalogue.facts;
    report.input_notes = catalogue.notes;
    report.n_input_files = catalogue.files.size();
    report.input_bytes = 0;
    for (const catalogue::File& file : catalogue.files) {
        report.input_bytes += file.size;
    }
}

void describe_plan(Report& report, const plan::Plan& plan,
                   const std::vector<catalogue::File>& files) {
    report.plan_hash = plan.hash();
    report.strategy = plan::name_of(plan.strategy);
    report.why = plan.why;
    report.metadata_bytes = plan::metadata_bytes(plan);
    report.tensors = tensor_entries(plan, files, {});
    report.files.clear();
    for (const outputs::PlacedFile& file : plan.placement.files) {
        report.files.push_back({file.name, file.size, {}});
    }
}

}  // namespace shardweld::app
