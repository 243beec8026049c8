// The small files of a model directory beside the weights: which are taken over, and writing them.
// Facts: HuggingFace's file names.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/path.hpp"
#include "io/input_file.hpp"
#include "io/written.hpp"

namespace shardweld::publish {

/// A file to be written: `text`, or what is behind `file`, whatever has its path by then.
struct Asset {
    std::string name;  ///< relative to the model directory ("chat_templates/tool.jinja")
    fs::path source;   ///< where it was read; "": it is this program's own
    std::optional<std::string> text;                      ///< of small files (64 KiB, 1 MiB in all)
    std::shared_ptr<const io::InputFile> file = nullptr;  ///< neither: this user may not read it
    io::FileStamp stamp = {};                             ///< of the source when it was read

    [[nodiscard]] Bytes size() const;
    /// What it holds; nullopt where that is more than `most`, or this user may not read it.
    [[nodiscard]] std::optional<std::string> read_text(Bytes most) const;
};

/// How a file at a path is opened.
using Opener = std::function<io::InputFile(const fs::path&)>;

/// Where a training checkpoint has the files that a model directory has beside its weights.
inline constexpr std::string_view kBesideShards = "huggingface/";

/// Whether a file of this name belongs to a model directory beside the weights: configurations,
/// tokenizers, templates, processors, sentence-transformers' lists and custom code; no weights,
/// indices or documents. config.json is not among them: its text is decided by true_config.
bool is_asset(std::string_view file_name);

/// Whether it says how weights are quantised, which is true of codes only.
bool is_about_codes(std::string_view file_name);

/// Whether a directory has such a name as sentence-transformers gives those of its modules behind
/// the transformer (pooling, dense layers with weights of their own): "1_Pooling".
bool is_module_directory(std::string_view name);

/// Whether one of these files of a model directory, or of a training checkpoint (kBesideShards),
/// holds a tokenizer's words, as transformers' tokenizers load them.
bool has_tokenizer(const std::vector<std::string>& file_names);

/// Their names, in their order.
std::vector<std::string> names_of(const std::vector<Asset>& assets);

/// The assets of a HuggingFace directory, sorted by name; regular files and links to such, which
/// `open` follows or refuses. So are the files, weights too, of the directories that a modules.json
/// names: sentence-transformers' pooling and dense layers. Each is looked at once: what is written
/// later is what was found here. Local. Error(unsupported) when there are more or larger files than
/// model directories have (1000 files, 1 GiB each); Error(io) when the directory or a file cannot
/// be read; errors of `open`.
std::vector<Asset> collect_assets(
    const fs::path& hf_directory,
    const Opener& open = [](const fs::path& path) { return io::InputFile::open(path); });

/// Names like those of assets that are no readable file: links to nothing (a snapshot of the Hub's
/// cache that was copied without its blobs), special files, directories called like a file
/// ("tokenizer.json", not "tokenizer"). Sorted, each with what it is: "vocab.json (a link to
/// nothing)". Also what a modules.json names in vain. Local. Error(io) when the directory cannot be
/// read.
std::vector<std::string> lost_assets(
    const fs::path& hf_directory,
    const Opener& open = [](const fs::path& path) { return io::InputFile::open(path); });

/// Those called .json which are none, as far as small ones go; larger ones by how they begin and
/// end. Error(io) where one cannot be read.
std::vector<std::string> unread_json(const std::vector<Asset>& assets);

/// The assets that hold weights, by name: those of sentence-transformers' modules do.
std::vector<std::string> weights_among(const std::vector<Asset>& assets);

/// Writes all assets into `directory`, where none is yet, checked; with `sync` also fsynced.
/// `before_file` is called at each. What was written, to be held against it later. Local.
/// Error(target) when there is a file of that name; Error(io) also when a source is no longer what
/// it was when it was read; Error(space).
std::vector<io::WrittenFile> write_assets(
    const std::vector<Asset>& assets, const io::Directory& directory, bool sync,
    const std::function<void()>& before_file = [] {});

}  // namespace shardweld::publish
