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
#include "formats/shared/assembler.hpp"
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

constexpr const char* kOtherTensor = "{tensor} has another shape or type in other files";
constexpr AssemblyWords kUniversalWords = {
    .other_dtype = {ErrorCode::mismatch, kOtherTensor, kOneSave},
    .other_shape = {ErrorCode::mismatch, kOtherTensor, kOneSave},
    .gap = {ErrorCode::not_found,
            "the model states of some ranks are missing, and with them elements {where} of "
            "{tensor}",
            kCopyAll},
};

/// Puts the tensors of all files together.
class UniversalFiles {
  public:
    explicit UniversalFiles(Catalogue& out)
        : parameters_(kUniversalWords, out), rest_(kUniversalWords, out) {}

    void add(FileScan scan) {
        auto& [told, content] = scan;
        const bool is_parameter = !parameter_of(told.files.front().path).empty();
        const std::uint32_t file = parameters_.take(told);
        for (Parameter& parameter : content.parameters) {
            declared_.emplace(std::move(parameter.name), std::move(parameter.shape));
        }
        for (Tensor& tensor : told.tensors) {
            (is_parameter ? parameters_ : rest_).add(std::move(tensor), file);
        }
        aliases_.merge(content.aliases);
        is_whole_ = is_whole_ && content.n_model_ranks.value_or(1) == 1;
    }

    void finish() {
        for (auto& [name, known] : rest_.tensors) {
            number_copies(known.tensor);
            require_covered(known.tensor);
            leave_copy(name, "fp32 copies of what the model states hold");
        }
        for (auto& [name, known] : parameters_.tensors) {
            number_copies(known.tensor);
            give_shape(known.tensor);
        }
        require_all();
        share();
        parameters_.tensors.merge(rest_.tensors);
        parameters_.finish();
    }

  private:
    // ZeRO-3 has a part of each frozen parameter on every rank, and copies of buffers.
    static void number_copies(Tensor& tensor) {
        if (!is_fragment(tensor)) {
            return;
        }
        std::uint32_t n_copies = 0;
        const Index volume = volume_of(tensor.shape, tensor.name);
        for (catalogue::Piece& piece : tensor.pieces) {
            piece.replica = piece.patch.volume() == volume ? n_copies++ : 0;
        }
    }

    void require_covered(const Tensor& tensor) const {
        CoverFault fault = find_cover_fault(tensor);
        fault.kind = fault.kind == Cover::Kind::exact ? fault.kind : Cover::Kind::gap;
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
        const auto declared = declared_.find(tensor.name);
        if (!is_whole_ || declared == declared_.end() || declared->second == tensor.shape) {
            return;
        }
        catalogue::Piece& piece = tensor.pieces.front();
        const bool is_flat = tensor.shape.size() == 1 && piece.patch.axes[0].stride == 1 &&
                             volume_of(declared->second, tensor.name) == tensor.shape.front();
        if (!is_flat) {
            throw of_several_saves("parameter " + printable(tensor.name) + " has shape " +
                                   shape_text(tensor.shape) + ", but the model states say " +
                                   shape_text(declared->second));
        }
        tensor.shape = declared->second;
        piece.patch = layout::dense_shape(tensor.shape, piece.patch.offset);
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

    Assembler parameters_;
    Assembler rest_;  // of the model states: buffers, frozen parameters
    std::map<std::string, std::vector<Index>> declared_;  // shapes on the first rank
    std::map<std::string, std::string> aliases_;          // other names of parameters
    bool is_whole_ = true;                                // and these are the whole ones
};

// Only the first model-parallel rank's are scanned.
void add_states(const Listing& listing, Location& location) {
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

std::optional<Location> probe_universal(const fs::path& directory) {
    const Listing listing = try_list_directory(directory);
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
    if (location.weights == WeightsFrom::model) {
        throw Error(ErrorCode::unsupported,
                    "a universal checkpoint holds fp32 weights only: its model states are "
                    "parts of ranks",
                    "leave --weights out; --dtype bf16 rounds as the module's are");
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
    // What tensor-parallel ranks hold beside buffers is no whole tensor.
    const Wanted wanted = states.has_others ? Wanted::buffers : Wanted::rest;
    return scan_model_states(location, file, name, {wanted, true, is_first});
}

Catalogue join_universal(const Location& location, std::vector<FileScan> scans) {
    Catalogue out;
    out.facts = location.facts;
    UniversalFiles files(out);
    for (FileScan& scan : scans) {
        files.add(std::exchange(scan, {}));
    }
    files.finish();
    out.notes = {"universal checkpoint of DeepSpeed: fp32 weights"};
    return out;
}

}  // namespace

const Format universal_format = {
    .name = "deepspeed universal",
    .backend = "deepspeed",
    .noun = "universal checkpoint of DeepSpeed",
    .option = InputOption::weights,
    .subject = "DeepSpeed's checkpoints",
    .neighbours = kUniversalNames,
    .probe = probe_universal,
    .scan_list = whole_list,
    .scan = scan_typed<FileContent, scan_universal>,
    .combine = combine_typed<FileContent, join_universal>,
};

}  // namespace shardweld::formats::deepspeed
