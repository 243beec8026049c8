// The interface of an input format and the registry of all of them.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "core/path.hpp"

#include "catalogue_words.hpp"

namespace shardweld::formats {

/// A device mesh given by hand (--mesh_dim_names, --mesh_shape), outermost dim first.
struct Mesh {
    std::vector<std::string> names;  ///< e.g. "ddp", "fsdp", "tp"
    std::vector<Index> shape;        ///< as long as names; empty: none given
    friend bool operator==(const Mesh&, const Mesh&) = default;
};

/// Which of a checkpoint's weights are taken, where it has those of the module and fp32 masters.
enum class WeightsFrom { automatic, model, master };

/// How much of what was trained is taken: the weights, also the optimizer's fp32 copies of them, or
/// also its moments.
enum class TakenState { weights, master, all };

/// What a checkpoint is for.
enum class Role {
    weights,     ///< the first: what is merged
    base,        ///< --base: the model that an adapter was trained on
    mixed,       ///< --average, --delta: joined with the first
    like,        ///< --like: the template of a training checkpoint
    supplement,  ///< --supplement: has what the first lacks of its model
    compared,    ///< a model that is held against another
};

/// What is asked for of a checkpoint that is read.
struct JobInput {
    fs::path directory;              ///< --local_dir, any sensible level
    std::string backend = "auto";    ///< --backend
    std::optional<Index> iteration;  ///< --iteration
    std::string role;                ///< --role actor|critic, "" if not given
    Mesh mesh;                       ///< --mesh_dim_names and --mesh_shape
    std::string prefix;              ///< --prefix: part of a state dict to take, "" if not given
    WeightsFrom weights = WeightsFrom::automatic;  ///< --weights
    TakenState state = TakenState::weights;        ///< --state
    bool check_crc = false;    ///< --check_crc: metadata with a CRC-32 are held against it
    bool wants_model = false;  ///< a finished model is expected, and no option chose `backend`
    Role use = Role::weights;
};

/// What lies in the checkpoint's directory, or between the one asked for and that, and is not read.
struct Neighbour {
    std::string path;  ///< relative to Location::directory; that of one not looked into ends in '/'
    Bytes bytes = 0;
};

/// A checkpoint found on disk: where its shard files are, before any of them is opened.
struct Location {
    std::string format;                    ///< Format::name
    fs::path directory;                    ///< that holds the shard files
    std::vector<std::string> shard_files;  ///< relative to directory, natural order
    std::vector<Neighbour> neighbours;     ///< of what the format scans; natural order
    std::optional<fs::path>
        hf_directory;  ///< huggingface/ with config.json, when the layout has one
    std::optional<fs::path> tokenizer_directory;   ///< NeMo's, which has no config.json
    std::optional<fs::path> adapter_directory;     ///< with an adapter_config.json, if it is known
    std::optional<fs::path> claims_file;           ///< verl's transformer_config.json
    std::vector<std::string> notes;                ///< what was found, for people
    std::map<std::string, Index> facts;            ///< e.g. iteration
    std::vector<std::byte> own;                    ///< what only the format makes use of
    std::map<std::string, std::string> warnings;   ///< as Catalogue::warnings
    std::vector<FileAssertion> statements;         ///< of directories' names and trackers
    Mesh mesh;                                     ///< as requested
    std::string prefix;                            ///< as requested
    WeightsFrom weights = WeightsFrom::automatic;  ///< as requested
    TakenState state = TakenState::weights;        ///< as requested
    bool check_crc = false;                        ///< as requested

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.format, self.directory, self.shard_files, self.neighbours,
                        self.hf_directory, self.tokenizer_directory, self.adapter_directory,
                        self.claims_file, self.notes, self.facts, self.own, self.warnings,
                        self.statements, self.mesh, self.prefix, self.weights, self.state,
                        self.check_crc);
    };
};

/// What one file of Format::scan_list tells.
struct Scan : Catalogue {
    std::vector<std::byte> own;  ///< what only the file's format makes use of (typed_scan.hpp)

    Scan() = default;
    // NOLINTNEXTLINE(google-explicit-constructor): most formats have nothing of their own
    Scan(Catalogue told) : Catalogue(std::move(told)) {}

    static constexpr auto fields = [](auto& self) {
        return std::tuple_cat(Catalogue::fields(self), std::tie(self.own));
    };
};

/// What opening containers told about some files.
struct Resolution {
    std::vector<std::uint32_t> files;     ///< indices into Catalogue::files
    std::vector<Bytes> sizes;             ///< of those files
    std::vector<Piece> pieces;            ///< all their pieces, in the catalogue's order
    std::vector<std::byte> samples = {};  ///< what lies in them of Catalogue::samples, likewise
};

/// For a format whose pieces are all located: Error(internal) where files are asked for.
Resolution leave_nothing(const Location& location, const Catalogue& catalogue,
                         std::span<const std::uint32_t> files,
                         const std::function<void()>& before_file);

struct Listing;
struct RankFiles;
struct RankGrid;

/// Options of the input that only some formats take.
enum class InputOption {
    none,
    mesh,    ///< --mesh_dim_names and --mesh_shape
    prefix,  ///< --prefix
    weights  ///< --weights
};

/// All that a format declares of itself: what others may know of it, and how its checkpoints are
/// read. What its names say stands in path_rules.txt. A folder defines one or two of these as
/// constants, and registry.hpp lists them.
struct Format {
    std::string_view name;          ///< "megatron torch_dist"
    std::string_view backend = "";  ///< "megatron"
    std::string_view noun = "";     ///< what it reads, for messages: "verl FSDP checkpoint"
    /// Read only when --backend names it: `auto` passes it by, because its directories are no
    /// sharded checkpoints or its files are not to be opened unasked.
    bool explicit_only = false;

    InputOption option = InputOption::none;  ///< that its checkpoints take
    std::string_view subject = "";  ///< whose checkpoints that option is about, for messages
    /// Whose names its tensors have, unless its metadata say otherwise: a dialect of the recipes.
    std::string_view dialect = "hf_module";
    /// Whether the embedding may have rows that no token has.
    bool pads_vocabulary = false;
    /// Whether a file of scan_list holds weights and nothing else of size, none of them twice.
    bool holds_weights_only = false;

    /// What of a directory it has found is worth a word behind its noun: "world size 4".
    std::string (*detail_of)(const Location& location) = [](const Location& /*location*/) {
        return std::string();
    };
    /// For a format read only by name: refuses a directory in which its files are seen, where it
    /// was not named.
    void (*refuse_unasked)(const fs::path& directory) = [](const fs::path& /*directory*/) {};
    /// Which ranks have left files; null where their names tell no ranks. Error where they
    /// contradict each other.
    RankGrid (*ranks)(const RankFiles& files) = nullptr;

    /// Recognises a directory of shard files (already resolved to the level that holds them), which
    /// holds what `listing` says. Local; reads only names and tiny files.
    std::optional<Location> (*probe)(const fs::path& directory, const Listing& listing);

    /// Files whose metadata has to be parsed (legacy: every shard; torch_dist: `.metadata`,
    /// common.pt), relative to location.directory. Each is scanned by one rank.
    std::vector<std::string> (*scan_list)(const Location& location) = [](const Location& location) {
        return location.shard_files;
    };

    /// Parses the metadata of one file of scan_list. Local; never reads tensor data.
    Scan (*scan)(const Location& location, const std::string& file);

    /// Puts the scans (in the order of scan_list) together, checks them against each other and
    /// numbers layers globally. Pure.
    Catalogue (*combine)(const Location& location, std::vector<Scan> scans);

    /// Second look, for formats whose index names containers (torch_dist: each piece is a small
    /// torch file inside a .distcp): opens those in `files`, a part of resolve_list, and finds
    /// where the elements lie; `before_file` is called at each. Local; one pass over the catalogue;
    /// never reads tensor data beyond the catalogue's samples.
    Resolution (*resolve)(const Location& location, const Catalogue& catalogue,
                          std::span<const std::uint32_t> files,
                          const std::function<void()>& before_file) = leave_nothing;

    /// Last step, of a catalogue whose pieces are all located: gives what an optimizer keeps in
    /// flat buffers the names of its parameters. Pure.
    void (*split_flat_states)(Catalogue& catalogue) = [](Catalogue& /*catalogue*/) {};
};

/// A location of this format, still without shard files; with a listing of the directory also the
/// config.json in it.
Location begun_at(const Format& format, const fs::path& directory,
                  const Listing* listing = nullptr);

// How a catalogue is read. The steps marked Local depend on their arguments and the files only, so
// each can be shared out among ranks by file, its results encoded, gathered and joined everywhere:
//   1. locate                                     one rank, then shared
//   2. scan the files of scan_list        Local   each file by one rank
//   3. combine                            pure    every rank
//   4. resolve the files of resolve_list  Local   each file by one rank
//   5. settle                             pure    every rank

/// Step 3: what the location's format combines, with its name, dialect (unless it gave another),
/// the location's notes and warnings, and an account of the neighbours. Pure.
Catalogue combine(const Location& location, std::vector<Scan> scans);
/// Files with pieces that are not located yet or with samples, as indices into catalogue.files;
/// empty when combine left nothing open.
std::vector<std::uint32_t> resolve_list(const Catalogue& catalogue);
/// Puts resolutions into the catalogue they came from, holds its samples against each other, and
/// carves its optimizer. Error(internal) unless they cover resolve_list exactly, Error(mismatch) of
/// fp32 masters that are not those of the weights.
void apply_resolutions(Catalogue& catalogue, const std::vector<Resolution>& resolutions);

/// Steps 2 to 5 by one rank.
Catalogue read_catalogue(const Location& location);

/// All formats, in the order in which they are tried.
const std::vector<const Format*>& all_formats();
/// The values of --backend for them, each once, in that order.
std::vector<std::string> backends();
/// The format of this name. Error(internal) where there is none.
const Format& format_called(std::string_view name);

/// The format of that name; nullptr: none has it.
const Format* find_format(std::string_view name);
/// The format a location names.
const Format& format_of(const Location& location);

/// Resolves --local_dir: iteration directories, verl's step, actor, critic, dist_ckpt and model
/// directories, the directory itself. Local. Error(not_found) says what was looked for and what was
/// found; Error(usage) when --role or --iteration is needed to choose or contradicts.
Location locate(const JobInput& request);

}  // namespace shardweld::formats
