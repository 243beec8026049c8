// Universal checkpoints, which DeepSpeed's tool makes of others: a directory for each parameter.
// Source: DeepSpeed 0.19.8 deepspeed/checkpoint/ds_to_universal.py.
#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "core/text.hpp"
#include "formats/containers/torch_file.hpp"
#include "formats/containers/torch_storage.hpp"
#include "formats/registry.hpp"
#include "formats/shared/directory_listing.hpp"
#include "formats/shared/file_scan.hpp"
#include "formats/shared/hints.hpp"
#include "formats/shared/model_values.hpp"
#include "formats/shared/module_names.hpp"
#include "formats/shared/neighbour_names.hpp"
#include "io/paths.hpp"
#include "shardweld/error.hpp"

#include "file_names.hpp"
#include "pickled.hpp"
#include "scan.hpp"

namespace shardweld::formats::deepspeed {

namespace {

using catalogue::Catalogue;
using catalogue::Tensor;

constexpr std::string_view kParameters = "zero/";
constexpr std::string_view kWeights = "/fp32.pt";
/// Which model states there are: the lowest data-parallel rank of the first model-parallel rank's,
/// and whether there are other model-parallel ranks'.
struct ModelStates {
    std::optional<Index> first;
    bool has_others = false;

    static constexpr auto fields = [](auto& self) { return std::tie(self.first, self.has_others); };
};

constexpr std::array<KnownName, 6> kUniversalNames = {{
    {"zero/*/exp_avg.pt", kTrainingState},
    {"zero/*/exp_avg_sq.pt", kTrainingState},
    {"zero/*/step.pt", kTrainingState},
    {"zero/optimizer_state.pt", kTrainingState},
    {"*_model_states.pt", "parts of ranks, which are joined in zero/"},
    {"latest_universal", ""},
}};

/// The parameter of "zero/NAME/fp32.pt"; "" of another file.
std::string_view parameter_of(std::string_view file) {
    if (!file.starts_with(kParameters) || !file.ends_with(kWeights)) {
        return {};
    }
    file.remove_prefix(kParameters.size());
    return file.substr(0, file.size() - kWeights.size());
}

FileScan scan_parameter(const Location& location, const std::string& file) {
    return {scan_torch_file(location, file, [&](const TorchFile& torch_file, Catalogue& out) {
        // A ZeRO-3 run saves the tensor itself.
        const PickleValue& root = torch_file.root();
        const PickleValue* const value = root.is_mapping() ? present(root, "param") : &root;
        if (value == nullptr) {
            throw Error(ErrorCode::corrupt, "holds no tensor, nor one called param");
        }
        const auto stored = torch_file.tensor(*value);
        if (!stored) {
            refuse_value(*value);
        }
        Tensor tensor;
        tensor.name = parameter_of(file);
        tensor.dtype = stored->dtype;
        tensor.shape = stored->shape;
        tensor.pieces.push_back(piece_of(*stored));
        out.tensors.push_back(std::move(tensor));
    })};
}

void refuse_missing(const std::vector<std::string>& files) {
    if (!files.empty()) {
        throw Error(ErrorCode::not_found, "parameters are missing: " + name_list(files),
                    "copy the whole directory zero/");
    }
}

/// Puts the tensors of all files together.
class UniversalJoiner {
  public:
    explicit UniversalJoiner(Catalogue& out) : out_(out) {}

    void add(FileScan scan) {
        auto& [told, content] = scan;
        const std::uint32_t file = join_scan(told, ignored_, out_);
        const bool is_parameter = !parameter_of(out_.files[file].path).empty();
        for (Parameter& parameter : content.parameters) {
            declared_.emplace(std::move(parameter.name), std::move(parameter.shape));
        }
        for (Tensor& tensor : told.tensors) {
            add_tensor(std::move(tensor), is_parameter ? parameters_ : rest_);
        }
        aliases_.merge(content.aliases);
        is_whole_ = is_whole_ && content.n_model_ranks.value_or(1) == 1;
    }

    void finish() {
        for (const auto& [name, tensor] : rest_) {
            require_covered(tensor);
            if (const auto copy = parameters_.extract(name)) {
                ignored_.add({"*", "fp32 copies of what the model states hold"}, 1,
                             catalogue::stored_bytes(copy.mapped()));
            }
        }
        for (auto& [name, tensor] : parameters_) {
            give_shape(tensor);
        }
        require_all();
        share();
        parameters_.merge(rest_);
        for (auto& [name, tensor] : parameters_) {
            out_.tensors.push_back(std::move(tensor));
        }
        out_.ignored = ignored_.take();
    }

  private:
    // ZeRO-3 has a part of each frozen parameter on every rank, and copies of buffers.
    static void add_tensor(Tensor tensor, std::map<std::string, Tensor>& tensors) {
        const auto [at, is_new] = tensors.try_emplace(tensor.name, tensor);
        if (is_new) {
            return;
        }
        Tensor& known = at->second;
        if (known.dtype != tensor.dtype || known.shape != tensor.shape) {
            throw Error(ErrorCode::mismatch,
                        printable(tensor.name) + " has another shape or type in other files",
                        kOneSave);
        }
        const bool is_part = is_fragment(tensor);
        for (catalogue::Piece& piece : tensor.pieces) {
            piece.replica = is_part ? 0 : static_cast<std::uint32_t>(known.pieces.size());
            known.pieces.push_back(piece);
        }
    }

    static void require_covered(const Tensor& tensor) {
        if (const CoverFault fault = find_cover_fault(tensor); fault.kind != Cover::Kind::exact) {
            throw Error(ErrorCode::not_found,
                        "the model states of some ranks are missing, and with them elements " +
                            fault.text + " of " + printable(tensor.name),
                        kCopyAll);
        }
    }

    // Some versions leave parameters flat.
    void give_shape(Tensor& tensor) const {
        const auto declared = declared_.find(tensor.name);
        if (!is_whole_ || declared == declared_.end() || declared->second == tensor.shape) {
            return;
        }
        catalogue::Piece& piece = tensor.pieces.front();
        const bool is_flat = tensor.shape.size() == 1 && piece.patch.axes[0].stride == 1 &&
                             volume_of(declared->second, tensor.name) == tensor.shape.front();
        if (!is_flat) {
            throw Error(ErrorCode::mismatch,
                        "parameter " + printable(tensor.name) + " has shape " +
                            shape_text(tensor.shape) + ", but the model states say " +
                            shape_text(declared->second),
                        kOneSave);
        }
        tensor.shape = declared->second;
        piece.patch = layout::dense_shape(tensor.shape, piece.patch.offset);
    }

    // DeepSpeed's tool takes what has no optimizer state, such as another name of a parameter, from
    // the module, where it is rounded.
    void share() {
        for (const auto& [alias, original] : aliases_) {
            const auto at = parameters_.find(original);
            if (at == parameters_.end()) {
                continue;
            }
            if (const auto copy = parameters_.extract(alias)) {
                ignored_.add({"*", "rounded copies of shared parameters"}, 1,
                             catalogue::stored_bytes(copy.mapped()));
            }
            Tensor shared = at->second;
            shared.name = alias;
            parameters_.emplace(alias, std::move(shared));
        }
    }

    void require_all() const {
        std::vector<std::string> missing;
        for (const auto& [name, shape] : declared_) {
            if (!parameters_.contains(name)) {
                missing.push_back(std::string(kParameters) + name + std::string(kWeights));
            }
        }
        refuse_missing(missing);
    }

    Catalogue& out_;
    std::map<std::string, Tensor> parameters_;
    std::map<std::string, Tensor> rest_;  // of the model states: buffers, frozen parameters
    std::map<std::string, std::vector<Index>> declared_;  // shapes on the first rank
    std::map<std::string, std::string> aliases_;          // other names of parameters
    bool is_whole_ = true;                                // and these are the whole ones
    IgnoredRows ignored_;
};

class Universal final : public FormatOf<FileContent> {
  public:
    [[nodiscard]] std::string_view name() const override { return "deepspeed universal"; }
    [[nodiscard]] std::string_view backend() const override { return "deepspeed"; }
    [[nodiscard]] std::string_view noun() const override {
        return "universal checkpoint of DeepSpeed";
    }
    [[nodiscard]] std::string_view subject_of(InputOption option) const override {
        return option == InputOption::weights ? "DeepSpeed's checkpoints" : "";
    }
    [[nodiscard]] std::span<const KnownName> known_names() const override {
        return kUniversalNames;
    }

    [[nodiscard]] std::optional<Location> probe(const fs::path& directory) const override {
        const Listing listing = try_list_directory(directory);
        if (!listing.has_directory("zero")) {
            return std::nullopt;
        }
        Location location = begun_at(directory, &listing);
        for (const std::string& parameter : list_directory(directory / "zero").directories) {
            const std::string file = std::string(kParameters) + parameter + std::string(kWeights);
            if (io::is_file(directory / file)) {
                location.shard_files.push_back(file);
            }
        }
        if (location.shard_files.empty()) {
            return std::nullopt;
        }
        add_states(listing, location);
        return location;
    }

    [[nodiscard]] std::vector<std::string> scan_list(const Location& location) const override {
        if (location.weights == WeightsFrom::model) {
            throw Error(ErrorCode::unsupported,
                        "a universal checkpoint holds fp32 weights only: its model states are "
                        "parts of ranks",
                        "leave --weights out; --dtype bf16 rounds as the module's are");
        }
        require_weights(location.directory / "zero");
        return location.shard_files;
    }

  private:
    [[nodiscard]] FileScan scan_file(const Location& location,
                                     const std::string& file) const override {
        if (!parameter_of(file).empty()) {
            return scan_parameter(location, file);
        }
        const FileName name = parse_file_name(file).value_or(FileName{});
        const auto states = decoded<ModelStates>(location.own);
        const bool is_first = states.first == name.dp;
        // What tensor-parallel ranks hold beside buffers is no whole tensor.
        const Wanted wanted = states.has_others ? Wanted::buffers : Wanted::rest;
        return scan_model_states(location, file, name, {wanted, true, is_first});
    }

    [[nodiscard]] Catalogue join(const Location& location,
                                 std::vector<FileScan> scans) const override {
        Catalogue out;
        out.facts = location.facts;
        UniversalJoiner join(out);
        add_each(std::move(scans), join);
        join.finish();
        out.notes = {"universal checkpoint of DeepSpeed: fp32 weights"};
        return out;
    }

    // Each directory is a parameter's: one with moments alone has lost its weights.
    static void require_weights(const fs::path& zero) {
        std::vector<std::string> missing;
        for (const std::string& parameter : list_directory(zero).directories) {
            const std::string file = parameter + std::string(kWeights);
            if (!io::is_file(zero / file)) {
                missing.push_back(std::string(kParameters) + file);
            }
        }
        refuse_missing(missing);
    }

    // Only the first model-parallel rank's are scanned.
    static void add_states(const Listing& listing, Location& location) {
        ModelStates states;
        for (const std::string& file : listing.files) {
            const auto name = parse_file_name(file);
            if (!name || (name->kind != FileKind::model && name->kind != FileKind::model_part)) {
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
};

}  // namespace

const Format& universal_format() {
    static const Universal format;
    return format;
}

}  // namespace shardweld::formats::deepspeed
