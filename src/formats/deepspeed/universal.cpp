// Universal checkpoints, which DeepSpeed's tool makes of others: a directory for each parameter.
// Source: DeepSpeed 0.19.8 deepspeed/checkpoint/ds_to_universal.py.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/text.hpp"
#include "formats/registry.hpp"
#include "formats/shared/assembler.hpp"
#include "formats/shared/directory_listing.hpp"
#include "formats/shared/hints.hpp"
#include "formats/shared/master_samples.hpp"
#include "formats/shared/optimizer_claims.hpp"
#include "formats/shared/optimizer_file.hpp"
#include "io/paths.hpp"
#include "shardweld/error.hpp"

#include "file_names.hpp"
#include "parameter_files.hpp"
#include "pickled.hpp"
#include "scan.hpp"
#include "universal_groups.hpp"

namespace shardweld::formats::deepspeed {

namespace {

/// Which model states there are: the lowest data-parallel rank of the first model-parallel rank's,
/// and whether there are other model-parallel ranks'.
struct ModelStates {
    std::optional<Index> first;
    bool has_others = false;
};

void refuse_missing(const std::vector<std::string>& files) {
    if (!files.empty()) {
        throw Error(ErrorCode::not_found, "parameters are missing: " + name_list(files),
                    "copy the whole directory zero/");
    }
}

constexpr AssemblyErrors kUniversalErrors = {.gap = ErrorCode::not_found, .cover_hint = kCopyAll};

[[noreturn]] void refuse_module(const char* why) {
    throw Error(ErrorCode::unsupported,
                std::string("this universal checkpoint holds fp32 weights only: ") + why,
                "leave --weights out; --dtype bf16 rounds as the module's are");
}

/// The module's weights and nothing else.
bool is_module_alone(const Location& location) {
    return location.weights == WeightsFrom::model && location.state == TakenState::weights;
}

/// Puts the tensors of all files together.
class UniversalFiles {
  public:
    UniversalFiles(const Location& location, Catalogue& out)
        : has_states_(location.state != TakenState::weights),
          has_weights_(is_module_alone(location)),
          out_(out),
          parameters_(out, kUniversalErrors),
          rest_(out, kUniversalErrors) {}

    void add(FileScan scan) {
        auto [told, content] = std::move(scan);
        const bool is_parameter = !parameter_of(told.files.front().path).empty();
        const std::uint32_t file = parameters_.add_scan(told);
        for (FlatParameter& parameter : content.parameters) {
            types_.emplace(parameter.name, parameter.dtype);
            declared_.emplace(std::move(parameter.name), std::move(parameter.shape));
        }
        if (is_parameter && !told.optimizer.is_empty() &&
            std::ranges::any_of(told.optimizer.states,
                                [](const State& state) { return state.name != kMaster; })) {
            (told.optimizer.step ? a_stepped_ : an_unstepped_) = out_.files[file].path;
        }
        out_.facts.merge(told.facts);
        said_.push_back({out_.files[file].path, std::move(told.optimizer)});
        for (Tensor& tensor : told.tensors) {
            (is_parameter ? parameters_ : rest_).add(std::move(tensor), file);
        }
        aliases_.merge(content.aliases);
        given_ += content.given;
        is_whole_ = is_whole_ && content.n_model_ranks.value_or(1) == 1;
    }

    void finish() {
        for (auto& [name, known] : rest_.tensors) {
            number_copies(known.tensor);
            require_covered(known.tensor);
            if (!declared_.contains(name)) {
                leave_copy(name, "fp32 copies of what the model states hold");
            }
        }
        for (auto& [name, known] : parameters_.tensors) {
            number_copies(known.tensor);
            give_shape(known.tensor);
            give_type(known.tensor);
        }
        take_weights();
        finish_states();
        require_all();
        share();
        parameters_.tensors.merge(rest_.tensors);
        parameters_.finish();
    }

    /// Whether the weights are those that the module held.
    [[nodiscard]] bool has_weights() const { return has_weights_; }

  private:
    // ZeRO-3 has a part of each frozen parameter on every rank, and copies of buffers.
    static void number_copies(Tensor& tensor) {
        if (!is_fragment(tensor)) {
            return;
        }
        std::uint32_t n_copies = 0;
        const Index volume = volume_of(tensor.shape, tensor.name);
        for (Piece& piece : tensor.pieces) {
            piece.replica = piece.patch.volume() == volume ? n_copies++ : 0;
        }
    }

    void require_covered(const Tensor& tensor) const {
        CoverFault fault = find_cover_fault(tensor);
        fault.kind = fault.kind == CoverKind::exact ? fault.kind : CoverKind::gap;
        rest_.require_cover(tensor, fault);
    }

    void leave_copy(const std::string& name, const char* what) {
        if (const auto copy = parameters_.tensors.extract(name)) {
            parameters_.ignored().add({"*", what}, 1,
                                      catalogue::stored_bytes(copy.mapped().tensor));
        }
    }

    // Some versions leave parameters flat.
    void give_shape(Tensor& tensor) const {
        auto* const declared = find_value(declared_, tensor.name);
        if (!is_whole_ || declared == nullptr || *declared == tensor.shape) {
            return;
        }
        Piece& piece = tensor.pieces.front();
        const bool is_flat = tensor.shape.size() == 1 && piece.patch.axes[0].stride == 1 &&
                             volume_of(*declared, tensor.name) == tensor.shape.front();
        if (!is_flat) {
            require_equal("the shape of " + tensor.name, tensor.shape, "its files", *declared,
                          "the model states");
        }
        tensor.shape = *declared;
        piece.patch = layout::dense_shape(tensor.shape, piece.patch.offset);
    }

    // Beside states the weights are of the module's type, to which their masters round.
    void give_type(Tensor& tensor) const {
        auto* const type = find_value(types_, tensor.name);
        if (has_states_ && type != nullptr && *type != tensor.dtype) {
            tensor.written_as = *type;
        }
    }

    // Where the module has the weights of all parameters, what was joined are their masters, which
    // they prove. Where no states are taken, a few elements of each do.
    void take_weights() {
        const auto is_there = [&](const auto& parameter) {
            return rest_.tensors.contains(parameter.first) &&
                   parameters_.tensors.contains(parameter.first);
        };
        const bool has_all = std::ranges::all_of(declared_, is_there);
        for (const auto& [name, shape] : declared_) {
            auto weight = rest_.tensors.extract(name);
            if (has_states_ && has_all) {
                std::swap(parameters_.tensors.at(name), weight.mapped());
                weight.mapped().tensor.written_as.reset();
                masters_.tensors.push_back(std::move(weight.mapped().tensor));
            } else if (parameters_.tensors.contains(name)) {
                add_master_sample(parameters_.tensors.at(name).tensor,
                                  weight ? &weight.mapped().tensor : nullptr);
            }
        }
        has_weights_ = has_weights_ || !masters_.tensors.empty();
        out_.samples.doubt =
            "DeepSpeed's own tool exchanges parameters of runs with round_robin_gradients";
        out_.samples.remedy =
            "--weights model takes the module's; or convert the save anew, from a run without "
            "round_robin_gradients";
    }

    // `weight`: the module's, which is left aside, or null.
    void add_master_sample(const Tensor& master, const Tensor* weight) {
        const auto held = place_of_elements(master);
        const auto module = weight == nullptr ? std::nullopt : place_of_elements(*weight);
        if (held && module && master.shape == weight->shape) {
            add_sample(master.name, {0, volume_of(master.shape, master.name)}, *held, *module,
                       out_.samples);
        } else {
            out_.samples.without.push_back(master.name);
        }
        if (weight != nullptr) {
            rest_.ignored().add({"*", kCopies}, 1, catalogue::stored_bytes(*weight));
        }
    }

    void finish_states() {
        if (!a_stepped_.empty()) {
            require_step(printable(an_unstepped_), an_unstepped_.empty());
        }
        join_optimizers(formats::Shapes::stated, std::exchange(said_, {}), out_);
        if (!masters_.tensors.empty()) {
            out_.optimizer.states.push_back(std::move(masters_));
        }
        for (State& state : out_.optimizer.states) {
            // What the model states hold is no parameter of the optimizer.
            std::erase_if(state.tensors, [&](const Tensor& tensor) {
                return !parameters_.tensors.contains(tensor.name);
            });
            for (Tensor& tensor : state.tensors) {
                give_shape(tensor);
            }
        }
        if (!is_whole_) {
            forget_names();
        }
        add_given(given_, out_.optimizer);
    }

    // The first model-parallel rank's model states do not name what other pipeline stages have.
    void forget_names() {
        std::set<std::string> named;
        for (ParameterGroup& group : out_.optimizer.groups) {
            named.insert(group.parameters.begin(), group.parameters.end());
        }
        const bool are_all = std::ranges::all_of(
            parameters_.tensors, [&](const auto& one) { return named.contains(one.first); });
        for (ParameterGroup& group : out_.optimizer.groups) {
            group.parameters = are_all ? std::move(group.parameters) : std::vector<std::string>();
        }
    }

    // DeepSpeed's tool takes what has no optimizer state, such as another name of a parameter, from
    // the module, where it is rounded.
    void share() {
        for (const auto& [alias, original] : aliases_) {
            if (parameters_.tensors.contains(original)) {
                leave_copy(alias, "rounded copies of shared parameters");
                Assembled shared = parameters_.tensors.at(original);
                shared.tensor.name = alias;
                parameters_.tensors.emplace(alias, std::move(shared));
            }
        }
    }

    void require_all() const {
        std::vector<std::string> missing;
        for (const auto& [name, shape] : declared_) {
            if (!parameters_.tensors.contains(name)) {
                missing.push_back(std::string(kParameters) + name + std::string(kWeights));
            }
        }
        refuse_missing(missing);
    }

    bool has_states_;
    bool has_weights_;
    Catalogue& out_;
    std::vector<ToldOptimizer> said_;
    std::string given_;                   // by optimizer.json beside the save
    std::string a_stepped_;               // a parameter's file beside which its step lies
    std::string an_unstepped_;            // one beside which it does not, but moments do
    std::map<std::string, DType> types_;  // of parameters, in the module
    Assembler parameters_;
    Assembler rest_;  // of the model states: buffers, frozen parameters, weights where they prove
    State masters_{std::string(kMaster), {}, {}, {}};
    std::map<std::string, std::vector<Index>> declared_;  // shapes on the first rank
    std::map<std::string, std::string> aliases_;          // other names of parameters
    bool is_whole_ = true;                                // and these are the whole ones
};

// Only the first model-parallel rank's are scanned. Where the files of several stages lie there, as
// reshape writes them, those of stage 3 repeat what the others say.
void add_states(const Listing& listing, Location& location) {
    const auto kind_of = [](const std::string& file) {
        const auto name = parse_file_name(file);
        return name ? std::optional(name->kind) : std::nullopt;
    };
    const bool has_whole = find_item(listing.files, ZeroFile::model, kind_of) != nullptr;
    ModelStates states;
    for (const std::string& file : listing.files) {
        const auto name = parse_file_name(file);
        if (!name ||
            (name->kind != ZeroFile::model && (has_whole || name->kind != ZeroFile::model_part))) {
            continue;
        }
        if (name->mp > 0) {
            states.has_others = true;
            continue;
        }
        location.shard_files.push_back(file);
        states.first = std::min(states.first.value_or(name->dp), name->dp);
    }
    location.own = encoded(states);
}

/// Files of parameters' weights, relative to the checkpoint, that are there or not.
std::vector<std::string> weights_in(const fs::path& directory, bool are_there) {
    std::vector<std::string> files;
    for (const std::string& parameter : list_directory(directory / "zero").directories) {
        std::string file = std::string(kParameters) + parameter + std::string(kWeights);
        if (io::is_file(directory / file) == are_there) {
            files.push_back(std::move(file));
        }
    }
    return files;
}

std::optional<Location> probe_universal(const fs::path& directory, const Listing& listing) {
    if (!listing.has_directory("zero")) {
        return std::nullopt;
    }
    Location location = begun_at(universal_format, directory, &listing);
    location.shard_files = weights_in(directory, true);
    if (location.shard_files.empty()) {
        return std::nullopt;
    }
    add_states(listing, location);
    return location;
}

std::vector<std::string> whole_list(const Location& location) {
    if (is_module_alone(location)) {
        if (decoded<ModelStates>(location.own).has_others) {
            refuse_module("its model states are parts of ranks");
        }
        return filter_list(location.shard_files,
                           [](const std::string& file) { return parameter_of(file).empty(); });
    }
    // Each directory is a parameter's: one with moments alone has lost its weights.
    refuse_missing(weights_in(location.directory, false));
    return location.shard_files;
}

FileScan scan_universal(const Location& location, const std::string& file) {
    if (!parameter_of(file).empty()) {
        return scan_parameter(location, file);
    }
    const FileName name = parse_file_name(file).value_or(FileName{});
    const auto states = decoded<ModelStates>(location.own);
    const bool is_first = states.first == name.dp;
    if (is_module_alone(location)) {
        return scan_model_states(location, file, name, {WeightSelection::all});
    }
    // What tensor-parallel ranks hold beside buffers is no whole tensor.
    const WeightSelection selection =
        states.has_others ? WeightSelection::buffers : WeightSelection::rest;
    const bool has_states = location.state != TakenState::weights && is_first;
    FileScan scan =
        scan_model_states(location, file, name,
                          {selection, true, is_first, has_states, is_first && !states.has_others});
    if (has_states) {
        add_universal_groups(location, scan);
        scan.own.given = given_optimizer(location);
    }
    return scan;
}

Catalogue join_universal(const Location& location, std::vector<FileScan> scans) {
    Catalogue out;
    out.facts = location.facts;
    UniversalFiles files(location, out);
    for (FileScan& scan : scans) {
        files.add(std::exchange(scan, {}));
    }
    files.finish();
    if (is_module_alone(location) && out.tensors.empty()) {
        refuse_module("its model states have none of the module's");
    }
    order_files(out, Unused::kept);
    out.notes = {"universal checkpoint of DeepSpeed: " +
                 std::string(files.has_weights() ? "the module's weights" : "fp32 weights")};
    return out;
}

}  // namespace

const Format universal_format = {
    .name = "deepspeed universal",
    .backend = "deepspeed",
    .noun = "universal checkpoint of DeepSpeed",
    .option = InputOption::weights,
    .subject = "DeepSpeed's checkpoints",
    .probe = probe_universal,
    .scan_list = whole_list,
    .scan = scan_typed<FileContent, scan_universal>,
    .combine = combine_typed<FileContent, join_universal>,
    .resolve = read_samples,
};

}  // namespace shardweld::formats::deepspeed
