#include "report.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string_view>

#include <unistd.h>

#include "app/messages/log.hpp"
#include "catalogue/catalogue.hpp"
#include "core/lists.hpp"
#include "core/names/name_rules.hpp"
#include "core/process/system.hpp"
#include "core/redact.hpp"
#include "core/text.hpp"
#include "plan/bind/folded_factors.hpp"
#include "plan/plan.hpp"
#include "plan/schedule/footprint.hpp"
#include "process/process.hpp"

namespace shardweld::app {

namespace {

bool is_matrix(std::span<const Index> shape) {
    return std::ranges::count_if(shape, [](Index extent) { return extent > 1; }) > 1;
}

bool is_factor(const std::string& name) {
    return has_part(name, ".lora_");
}

/// A kind of oddity, and how it is told.
struct OddityKind {
    const char* code;
    const char* of_one;
    const char* of_several;
    bool (*has)(const OddTensor&);
    std::string (*extent)(const OddTensor&);  ///< how much of the tensor; nullptr: all of it
};

constexpr OddityKind kKinds[] = {
    {"nan_values", "holds NaNs", "hold NaNs", [](const OddTensor& odd) { return odd.n_nan > 0; },
     [](const OddTensor& odd) { return std::to_string(odd.n_nan); }},
    {"inf_values", "holds infinities", "hold infinities",
     [](const OddTensor& odd) { return odd.n_inf > 0; },
     [](const OddTensor& odd) { return std::to_string(odd.n_inf); }},
    {"all_zero", "is all zeros", "are all zeros",
     [](const OddTensor& odd) { return odd.is_zero && !is_factor(odd.name); }, nullptr},
    {"all_zero", "of the adapter is all zeros (never trained, or a rank's file of zeros)",
     "of the adapter are all zeros (never trained, or a rank's file of zeros)",
     [](const OddTensor& odd) { return odd.is_zero && is_factor(odd.name); }, nullptr},
    {"constant", "holds one value only", "hold one value only",
     [](const OddTensor& odd) { return odd.is_constant; }, nullptr},
    {"mostly_zero", "of the adapter is zeros for the most part (untrained, or saved in part)",
     "of the adapter are zeros for the most part (untrained, or saved in part)",
     [](const OddTensor& odd) { return odd.is_mostly_zero; },
     [](const OddTensor& odd) { return odd.zeros; }},
};

/// "48 of 64 rows" where the zeros would make whole rows, else "770 of 1024 values".
std::string zeros_text(std::span<const Index> shape, const numeric::Census& census) {
    const Index row = shape.size() < 2 ? 1 : shape.back();
    const bool has_rows = row > 1 && census.n_zero % row == 0;
    const Index unit = has_rows ? row : 1;
    return std::to_string(census.n_zero / unit) + " of " +
           std::to_string(census.n_elements / unit) + (has_rows ? " rows" : " values");
}

std::string text_of_process(const std::string& pid, const char* file) {
    std::ifstream stream("/proc/" + pid + "/" + file);
    return {(std::istreambuf_iterator<char>(stream)), {}};
}

std::vector<std::string> command_of(const std::string& pid) {
    const std::string text = text_of_process(pid, "cmdline");
    auto words = collect_list<std::string>(split(text, '\0'), std::identity());
    if (!words.empty() && words.back().empty()) {
        words.pop_back();
    }
    return words;
}

/// Whether a launcher's command ends with what this process was started as; launchers may write the
/// program with its directory.
bool launches(const std::vector<std::string>& launcher, const std::vector<std::string>& arguments) {
    return launcher.size() > arguments.size() &&
           std::equal(arguments.begin() + 1, arguments.end(),
                      launcher.end() - static_cast<std::ptrdiff_t>(arguments.size()) + 1);
}

/// Each word by itself: a secret at the end of one hides no other.
std::string shown_line(std::vector<std::string> words) {
    std::ranges::transform(words, words.begin(),
                           [](const std::string& word) { return without_secrets(word); });
    return process::shell_line(words);
}

/// Slurm's daemons start the ranks, so srun is not above them. It is looked for on this host.
std::string srun_of(const std::vector<std::string>& arguments) {
    std::error_code unknown;
    for (const fs::directory_entry& entry : fs::directory_iterator("/proc", unknown)) {
        const std::string pid = entry.path().filename().string();
        if (parse_index(pid) && text_of_process(pid, "comm") == "srun\n") {
            if (const auto command = command_of(pid); launches(command, arguments)) {
                return shown_line(command);
            }
        }
    }
    return "";
}

std::string value_of_variable(const char* name) {
    const char* text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing sets them
    return text == nullptr ? "" : text;
}

/// What variables tell of a launcher whose command is not seen.
std::string launcher_by_variables() {
    constexpr const char* kUnknown = "; its other options are not known";
    if (const std::string ranks = value_of_variable("OMPI_COMM_WORLD_SIZE"); !ranks.empty()) {
        return "started by mpirun -n " + ranks + " on another host" + kUnknown;
    }
    if (const std::string step = value_of_variable("SLURM_STEP_ID"); !step.empty()) {
        return "started by srun -n " + value_of_variable("SLURM_STEP_NUM_TASKS") + ", step " +
               step + " of job " + value_of_variable("SLURM_JOB_ID") + kUnknown;
    }
    return value_of_variable("PMI_RANK").empty() && value_of_variable("PMIX_RANK").empty()
               ? ""
               : "started by a launcher whose command is not known";
}

/// Who started the ranks, as far as this process sees.
void add_launcher(const std::vector<std::string>& arguments, Circumstances& found) {
    if (const int above = launcher_above(); above != 0) {
        found.launcher = shown_line(command_of(std::to_string(above)));
        return;
    }
    // Only the first rank reports, and a host may have many that would all look.
    if (value_of_variable("OMPI_COMM_WORLD_SIZE").empty() &&
        value_of_variable("SLURM_PROCID") == "0") {
        found.launcher = srun_of(arguments);
    }
    found.unseen = found.launcher.empty() ? launcher_by_variables() : "";
}

std::vector<std::string> sources_of(std::span<const plan::Operand> operands,
                                    const std::vector<catalogue::File>& files) {
    std::set<std::uint32_t> used = collect_set(operands, &plan::Operand::file);
    return collect_list(used, [&](const std::uint32_t file) { return files.at(file).path; });
}

}  // namespace

std::vector<OddTensor> judge_census(const plan::WrittenTensors& tensors,
                                    const std::map<std::uint32_t, numeric::Census>& census,
                                    const std::set<std::string>& changed) {
    std::vector<OddTensor> all;
    for (const auto& [at, found] : census) {
        const plan::WrittenTensor& tensor = tensors[at];
        const bool is_uniform = found.is_constant && is_matrix(tensor.shape);
        const bool is_odd_zero = is_matrix(tensor.shape) || changed.contains(tensor.name);
        const OddTensor odd{
            tensor.name,
            found.n_nan,
            found.n_inf,
            is_odd_zero && !found.has_nonzero,
            is_uniform && found.has_nonzero && found.n_nan == 0 && is_float(tensor.dtype),
            is_factor(tensor.name) && found.has_nonzero && found.is_mostly_zero(),
            zeros_text(tensor.shape, found)};
        if (odd.n_nan > 0 || odd.n_inf > 0 || odd.is_zero || odd.is_constant ||
            odd.is_mostly_zero) {
            all.push_back(odd);
        }
    }
    return all;
}

Warnings sanity_warnings(const std::vector<OddTensor>& all, const std::string& noun) {
    Warnings warnings;
    for (const OddityKind& kind : kKinds) {
        std::vector<std::string> tensors;
        std::string first;
        for (const OddTensor& odd : all) {
            if (!kind.has(odd)) {
                continue;
            }
            first = tensors.empty() ? odd.name : first;
            tensors.push_back(printable(odd.name) +
                              (kind.extent == nullptr ? "" : " (" + kind.extent(odd) + ")"));
        }
        if (!tensors.empty()) {
            warnings.push_back({kind.code, first,
                                counted(tensors.size(), noun) + " " +
                                    verb_of(tensors.size(), kind.of_one, kind.of_several) + ": " +
                                    listed(tensors)});
        }
    }
    return warnings;
}

Warnings factor_warnings(const plan::WrittenTensors& tensors,
                         const std::map<std::uint32_t, numeric::Census>& census) {
    std::vector<OddTensor> all = judge_census(tensors, census);
    std::erase_if(all, [](const OddTensor& odd) {
        return !is_factor(odd.name) || !(odd.is_zero || odd.is_mostly_zero);
    });
    for (OddTensor& odd : all) {
        odd.n_nan = 0;
        odd.n_inf = 0;
    }
    return sanity_warnings(all, "folded factor");
}

bool is_telling(const std::string& variable) {
    return is_known_as(variable, "variable that tells of a run") &&
           !is_known_as(variable, "variable of mpirun's or a secret");
}

Circumstances circumstances_of(const std::vector<std::string>& arguments) {
    Circumstances found;
    found.started = utc_now();
    if (arguments.empty()) {
        return found;
    }
    found.command = shown_line(arguments);
    add_launcher(arguments, found);
    std::error_code unknown;
    found.directory = fs::current_path(unknown).string();
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view text(*entry);
        const std::size_t equals = text.find('=');
        const std::string name(text.substr(0, equals));
        if (equals != std::string_view::npos && is_telling(name)) {
            found.variables[name] = text.substr(equals + 1);
        }
    }
    return found;
}

Warnings all_warnings(const RunReport& run, const OutputReport& output) {
    Warnings warnings = run.warnings;
    append_all(warnings, output.own_warnings);
    return warnings;
}

std::function<TensorEntry(std::size_t)> entries_of(const plan::Plan& plan,
                                                   const std::vector<catalogue::File>& files,
                                                   const execute::Result& result,
                                                   const plan::Plan* factors) {
    const auto folded =
        factors == nullptr ? std::nullopt : std::optional<plan::FoldedFactors>(factors->placement);
    return [&plan, &files, &result, factors, folded](std::size_t at) {
        const auto i = static_cast<std::uint32_t>(at);
        const std::vector<std::string>& digests = result.tensor_digests;
        const plan::WrittenTensor& tensor = plan.tensor(i);
        const outputs::Slot& slot = plan.placement.slots[i];
        TensorEntry entry{tensor.name,
                          tensor.dtype,
                          tensor.shape,
                          plan.placement.files[slot.file].name,
                          slot.offset,
                          tensor.bytes(),
                          i < digests.size() ? digests[i] : "",
                          sources_of(plan.operands_of(i), files)};
        if (folded) {
            entry.factors = collect_list(folded->in(plan.target_of(i)), [&](std::size_t factor) {
                return plan::full_name(factors->tensor(static_cast<std::uint32_t>(factor)));
            });
        }
        const Bytes block = static_cast<Bytes>(plan.block_elements(i)) * size_of(tensor.dtype);
        entry.block = block == plan::kDigestBlock ? 0 : block;
        if (auto* const quality = find_value(result.quality, i)) {
            entry.encoding = facts_of(plan.target_of(i).encode->encoding).name;
            entry.quality = *quality;
        }
        return entry;
    };
}

std::vector<TensorEntry> tensor_entries(const plan::Plan& plan,
                                        const std::vector<catalogue::File>& files,
                                        const execute::Result& result, const plan::Plan* factors) {
    return collect_list(indices(plan.tensors), entries_of(plan, files, result, factors));
}

InputReport input_report(const fs::path& directory, const catalogue::Catalogue& catalogue,
                         const catalogue::Provenance& provenance) {
    const Bytes bytes = add_up(catalogue.files, &catalogue::File::size);
    return {directory.string(), catalogue.format,       catalogue.facts,
            catalogue.notes,    catalogue.files.size(), bytes,
            provenance};
}

void describe_strategy(RunReport& report, const plan::Plan& plan) {
    report.strategy = plan::name_of(plan.strategy);
    report.why = plan.why;
}

void describe_plan(OutputReport& report, const plan::Plan& plan,
                   const std::vector<catalogue::File>& files, const plan::Plan* factors) {
    report.plan_hash = plan.hash();
    report.metadata_bytes = plan::metadata_bytes(plan);
    report.tensors = tensor_entries(plan, files, {}, factors);
    report.files.clear();
    for (const outputs::PlacedFile& file : plan.placement.files) {
        report.files.push_back({file.name, file.size, {}});
    }
}

Stopwatch::Stopwatch() : wall_(wall_seconds()), cpu_(cpu_seconds()) {}

Phase& Stopwatch::lap(const std::string& name) {
    const double wall = wall_seconds();
    const double cpu = cpu_seconds();
    (void)peak_bytes();
    phases_.push_back({name, wall - wall_, cpu - cpu_, 0, 0, 0});
    wall_ = wall;
    cpu_ = cpu;
    if (on_lap_) {
        on_lap_(phases_.back());
    }
    return phases_.back();
}

}  // namespace shardweld::app
