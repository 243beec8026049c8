// The interface of an input format and the registry of all of them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "catalogue/catalogue.hpp"
#include "core/path.hpp"

namespace shardweld::formats {

/// A device mesh given by hand (--mesh_dim_names, --mesh_shape), outermost dim first.
struct Mesh {
    std::vector<std::string> names;  ///< e.g. "ddp", "fsdp", "tp"
    std::vector<Index> shape;        ///< as long as names; empty: none given
    friend bool operator==(const Mesh&, const Mesh&) = default;

    static constexpr auto fields = [](auto& self) { return std::tie(self.names, self.shape); };
};

/// Which of a checkpoint's weights are taken, where it has those of the module and fp32 masters.
enum class WeightsFrom { automatic, model, master };

/// What the command line says about the input.
struct InputRequest {
    fs::path directory;              ///< --local_dir, any sensible level
    std::string backend = "auto";    ///< --backend
    std::optional<Index> iteration;  ///< --iteration
    std::string role;                ///< --role actor|critic, "" if not given
    Mesh mesh;                       ///< --mesh_dim_names and --mesh_shape
    std::string prefix;              ///< --prefix: part of a state dict to take, "" if not given
    WeightsFrom weights = WeightsFrom::automatic;  ///< --weights
    bool check_crc = false;    ///< --check_crc: metadata with a CRC-32 are held against it
    bool wants_model = false;  ///< a finished model is expected, and no option chose `backend`
};

/// What lies in the checkpoint's directory, or between the one asked for and that, and is not read.
struct Neighbour {
    std::string path;  ///< relative to Location::directory; that of one not looked into ends in '/'
    Bytes bytes = 0;

    static constexpr auto fields = [](auto& self) { return std::tie(self.path, self.bytes); };
};

/// What the name of a neighbour means. In a pattern '*' is any text and '#' a number.
struct KnownName {
    std::string_view pattern;       ///< of Neighbour::path; "name/": directories not to look into
    std::string_view reason;        ///< why it is set aside, for people; "": it is read
    bool may_hold_weights = false;  ///< then it is warned of
};

/// A checkpoint found on disk: where its shard files are, before any of them is opened.
struct Location {
    std::string format;                    ///< Format::name()
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
    std::vector<catalogue::Statement> statements;  ///< of directories' names and trackers
    Mesh mesh;                                     ///< as requested
    std::string prefix;                            ///< as requested
    WeightsFrom weights = WeightsFrom::automatic;  ///< as requested
    bool check_crc = false;                        ///< as requested

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.format, self.directory, self.shard_files, self.neighbours,
                        self.hf_directory, self.tokenizer_directory, self.adapter_directory,
                        self.claims_file, self.notes, self.facts, self.own, self.warnings,
                        self.statements, self.mesh, self.prefix, self.weights, self.check_crc);
    };
};

/// What one file of Format::scan_list tells.
struct Scan : catalogue::Catalogue {
    std::vector<std::byte> own;  ///< what only the file's format makes use of (typed_scan.hpp)

    Scan() = default;
    // NOLINTNEXTLINE(google-explicit-constructor): most formats have nothing of their own
    Scan(catalogue::Catalogue told) : Catalogue(std::move(told)) {}

    static constexpr auto fields = [](auto& self) {
        return std::tuple_cat(catalogue::Catalogue::fields(self), std::tie(self.own));
    };
};

/// What opening containers told about some files.
struct Resolution {
    std::vector<std::uint32_t> files;      ///< indices into Catalogue::files
    std::vector<Bytes> sizes;              ///< of those files
    std::vector<catalogue::Piece> pieces;  ///< all their pieces, in the catalogue's order

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.files, self.sizes, self.pieces);
    };
};

struct Listing;

/// Options of the input that only some formats take.
enum class InputOption {
    mesh,    ///< --mesh_dim_names and --mesh_shape
    prefix,  ///< --prefix
    weights  ///< --weights
};

class Format {
  public:
    Format() = default;
    Format(const Format&) = delete;
    Format& operator=(const Format&) = delete;
    Format(Format&&) = delete;
    Format& operator=(Format&&) = delete;
    virtual ~Format() = default;

    [[nodiscard]] virtual std::string_view name() const = 0;     ///< "megatron torch_dist"
    [[nodiscard]] virtual std::string_view backend() const = 0;  ///< "megatron"
    /// Read only when --backend names it: `auto` passes it by, because its directories are no
    /// sharded checkpoints or its files are not to be opened unasked.
    [[nodiscard]] virtual bool explicit_only() const { return false; }

    // For messages, and where several directories may be meant.

    /// What it reads: "verl FSDP checkpoint", "HuggingFace model".
    [[nodiscard]] virtual std::string_view noun() const = 0;
    /// What of a directory it has found is worth a word behind its noun: "world size 4".
    [[nodiscard]] virtual std::string detail_of(const Location& /*location*/) const { return ""; }
    /// Patterns of the names by which it knows a directory; "" if another format's say the same.
    [[nodiscard]] virtual std::string_view looks_for() const { return ""; }
    /// Whether a directory's names look like such a save, which may be damaged or not asked for.
    [[nodiscard]] virtual bool recognises(const Listing& /*listing*/) const { return false; }
    /// What is wrong with a directory that it cannot read though its files are there, to be put
    /// behind the directory's name; "" if nothing is known.
    [[nodiscard]] virtual std::string_view diagnose(const Listing& /*listing*/) const { return ""; }
    /// For a format read only by name: refuses a directory that it recognises, where it was not
    /// named.
    virtual void refuse_unasked(const fs::path& /*directory*/) const {}
    /// Whose checkpoints an option is about, if it is one of this format: "torch DCP checkpoints";
    /// "" otherwise.
    [[nodiscard]] virtual std::string_view subject_of(InputOption /*option*/) const { return ""; }

    /// Whose names its tensors have, unless its metadata say otherwise: a dialect of the recipes.
    [[nodiscard]] virtual std::string_view dialect() const { return "hf_module"; }
    /// Whether the embedding may have rows that no token has.
    [[nodiscard]] virtual bool pads_vocabulary() const { return false; }
    /// Whether a file of scan_list holds weights and nothing else of size, none of them twice.
    [[nodiscard]] virtual bool holds_weights_only() const { return false; }

    /// Names of what it leaves beside its shards (closed_world.hpp).
    [[nodiscard]] virtual std::span<const KnownName> known_names() const { return {}; }

    /// Recognises a directory of shard files (already resolved to the level that holds them).
    /// Local; reads only names and tiny files.
    [[nodiscard]] virtual std::optional<Location> probe(const fs::path& directory) const = 0;

    /// Files whose metadata has to be parsed (legacy: every shard; torch_dist: `.metadata`,
    /// common.pt), relative to location.directory. Each is scanned by one rank.
    [[nodiscard]] virtual std::vector<std::string> scan_list(const Location& location) const = 0;

    /// Parses the metadata of one file of scan_list. Local; never reads tensor data.
    [[nodiscard]] virtual Scan scan(const Location& location, const std::string& file) const = 0;

    /// Puts the scans (in the order of scan_list) together, checks them against each other and
    /// numbers layers globally. Pure.
    [[nodiscard]] virtual catalogue::Catalogue combine(const Location& location,
                                                       std::vector<Scan> scans) const = 0;

    /// Second look, for formats whose index names containers (torch_dist: each piece is a small
    /// torch file inside a .distcp): opens those in `files`, a part of resolve_list, and finds
    /// where the elements lie; `before_file` is called at each. Local; one pass over the catalogue;
    /// never reads tensor data.
    [[nodiscard]] virtual Resolution resolve(const Location& location,
                                             const catalogue::Catalogue& catalogue,
                                             std::span<const std::uint32_t> files,
                                             const std::function<void()>& before_file) const;

  protected:
    /// A location of this format, still without shard files; with a listing of the directory also
    /// the config.json in it.
    [[nodiscard]] Location begun_at(const fs::path& directory,
                                    const Listing* listing = nullptr) const;
};

// How a catalogue is read. The steps marked Local depend on their arguments and the files only, so
// each can be shared out among ranks by file, its results encoded, gathered and joined everywhere:
//   1. locate                                     one rank, then shared
//   2. scan the files of scan_list        Local   each file by one rank
//   3. combine                            pure    every rank
//   4. resolve the files of resolve_list  Local   each file by one rank
//   5. settle                             pure    every rank

/// Step 3: what the location's format combines, with its name, dialect (unless it gave another),
/// the location's notes and warnings, and an account of the neighbours. Pure.
catalogue::Catalogue combine(const Location& location, std::vector<Scan> scans);
/// Files with pieces that are not located yet, as indices into catalogue.files; empty when combine
/// left nothing open.
std::vector<std::uint32_t> resolve_list(const catalogue::Catalogue& catalogue);
/// Puts resolutions into the catalogue they came from. Error(internal) unless they cover
/// resolve_list exactly.
void settle(catalogue::Catalogue& catalogue, const std::vector<Resolution>& resolutions);

/// Steps 2 to 5 by one rank.
catalogue::Catalogue read_catalogue(const Location& location);

/// All formats, in the order in which they are tried.
const std::vector<const Format*>& all_formats();
/// The values of --backend for them, each once, in that order.
std::vector<std::string> backends();
/// The format a location names.
const Format& format_of(const Location& location);

/// Resolves --local_dir: iteration directories, verl's step, actor, critic, dist_ckpt and model
/// directories, the directory itself. Local. Error(not_found) says what was looked for and what was
/// found; Error(usage) when --role or --iteration is needed to choose or contradicts.
Location locate(const InputRequest& request);

}  // namespace shardweld::formats
