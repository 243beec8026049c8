#include "checkpoint_template.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "adapters/separate.hpp"
#include "app/survey/survey.hpp"
#include "core/text.hpp"
#include "formats/containers/zip.hpp"
#include "formats/recognise.hpp"
#include "formats/shared/directory_listing.hpp"
#include "formats/shared/neighbour_names.hpp"
#include "formats/stated_sums.hpp"
#include "io/input_file.hpp"
#include "outputs/image.hpp"
#include "plan/pieces.hpp"
#include "publish/report_file.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

/// Formats whose tensors lie in their files as bytes that can be exchanged.
constexpr std::array<std::string_view, 7> kFormats = {
    "megatron torch_dist", "megatron legacy",      "verl fsdp", "accelerate fsdp", "torch dcp",
    "bytecheckpoint",      "torch dcp safetensors"};
constexpr const char* kOtherTemplate = "give a template that was saved of this model";
/// Which iteration training starts from, in the directory above that of an iteration.
constexpr std::string_view kTracker = "latest_checkpointed_iteration.txt";

/// Absolute, without a slash at its end.
fs::path normal(const fs::path& path) {
    const fs::path whole = fs::absolute(path).lexically_normal();
    return whole.has_filename() ? whole : whole.parent_path();
}

/// Sums and reports of the template's files, which are not true of others.
bool is_untrue(std::string_view name) {
    return name == "integrity.json" || name == publish::kKeptReport;
}

/// Bytes between tensors that are copied as tensors are, beside those that archives state sums in:
/// behind each tensor, and at the end of the file.
constexpr Bytes kLargeGap = Bytes{1} << 20U;
constexpr Bytes kSumsBehindTensor = Bytes{1} << 16U;
constexpr Bytes kSumsAtEnd = Bytes{1} << 24U;

publish::Asset asset_of(io::InputFile opened, std::string name) {
    const auto file = std::make_shared<const io::InputFile>(std::move(opened));
    return {std::move(name), file->path(), {}, file, file->stamp()};
}

/// "10" of "iter_0000010"; "" where the directory is called otherwise.
std::string iteration_in(const std::string& directory) {
    constexpr std::string_view kIteration = "iter_";
    if (!directory.starts_with(kIteration) || directory.size() == kIteration.size()) {
        return "";
    }
    const std::size_t first = directory.find_first_not_of('0', kIteration.size());
    const auto number = parse_index(directory.substr(std::min(first, directory.size() - 1)));
    return number ? std::to_string(*number) : std::string();
}

/// Whether a loader looks for a file of this name above the shards.
bool is_found_above(std::string_view name) {
    return std::ranges::any_of(formats::common_names(), [&](const formats::KnownName& known) {
        const bool is_of_training = known.reason.empty() || known.reason == formats::kTrainingState;
        return is_of_training && formats::matches(known.pattern, name);
    });
}

/// Whether the elements of a piece lie one behind the other.
bool is_row_major(const layout::Patch& patch) {
    Index stride = 1;
    for (std::size_t k = patch.axes.size(); k-- > 0;) {
        const layout::Axis& axis = patch.axes[k];
        if (axis.extent > 1 && axis.stride != stride) {
            return false;
        }
        stride *= axis.extent;
    }
    return true;
}

std::string place_text(const layout::Box& box) {
    const auto lo_of = [](const layout::Range& range) { return std::to_string(range.lo); };
    return "[" + joined(box, ", ", lo_of) + "]";
}

/// A tensor of the template as it is.
plan::Target copied(const plan::TensorPiece& piece, const std::string& name) {
    plan::Target target;
    target.name = name;
    target.source = piece.path.back();
    std::ranges::transform(piece.box, std::back_inserter(target.shape), &layout::Range::extent);
    target.stored = target.dtype = piece.in_template->dtype;
    target.is_kept = true;
    target.is_copy = piece.is_copy;
    target.operands.push_back(
        {piece.in_template->file, piece.in_template->base, {0, 0, {{target.volume(), 1, 1}}}});
    return target;
}

bool is_copied(const plan::Target& target, const plan::TensorPiece::InTemplate& there) {
    return target.operands.size() == 1 && target.operands.front().file == there.file &&
           target.operands.front().base == there.base;
}

/// "optimizer* (520.0 kB)": what training leaves in checkpoints, whose weights are now others.
std::vector<std::string> states_in(const catalogue::Catalogue& catalogue) {
    std::vector<std::string> states;
    for (const catalogue::Ignored& row : catalogue.ignored) {
        if (row.reason == formats::kTrainingState && row.bytes > 0) {
            states.push_back(row.pattern + " (" + human_bytes(row.bytes) + ")");
        }
    }
    return states;
}

/// The large gaps of a file between these spans of bytes, as tensors of bytes.
std::vector<plan::Target> gaps_in(std::uint32_t file, const catalogue::File& source,
                                  const std::string& name, const std::map<Bytes, Bytes>& spans) {
    std::vector<plan::Target> gaps;
    Bytes begin = 0;
    const auto add = [&](Bytes end) {
        const Bytes from = begin == 0 ? 0 : begin + kSumsBehindTensor;
        if (end <= from || end - from < kLargeGap) {
            return;
        }
        const Bytes size = end - from;
        plan::TensorPiece piece;
        piece.file = name;
        piece.path = {"[" + std::to_string(from) + ", " + std::to_string(end) + ")"};
        piece.box.push_back({0, static_cast<Index>(size)});
        piece.in_template = {file, from, DType::u8};
        gaps.push_back(copied(piece, plan::piece_name(piece)));
    };
    for (const auto& [at, size] : spans) {
        add(at);
        begin = at + size;
    }
    add(source.size - std::min(source.size, kSumsAtEnd));
    return gaps;
}

/// The file that was read last stays open.
class ImageReader {
  public:
    ImageReader(std::shared_ptr<const CheckpointTemplate> like, std::vector<std::uint32_t> files)
        : like_(std::move(like)), files_(std::move(files)) {}

    void read(std::size_t at, Bytes offset, std::span<std::byte> out) {
        if (open_ != at) {
            file_ = io::InputFile::open(path_of(at));
            open_ = at;
        }
        file_.read_at(offset, out);
    }

    outputs::StatedSums sums(std::size_t at) {
        if (!sums_) {
            sums_.emplace(like_->location.directory);
        }
        const fs::path directory = normal(like_->location.directory);
        formats::FileSums own = sums_->of(path_of(at).lexically_relative(directory).string());
        outputs::StatedSums all{stated(own.records), {}};
        for (formats::SaveFingerprint& one : own.fingerprints) {
            all.texts.emplace_back(
                outputs::ChecksumText{one.record, one.digits, std::move(one.sums), one.own,
                                      formats::fingerprint_of},
                stated(one.of));
        }
        return all;
    }

  private:
    static std::vector<outputs::StatedSum> stated(const std::vector<formats::RecordSum>& records) {
        std::vector<outputs::StatedSum> sums;
        for (const formats::RecordSum& record : records) {
            sums.push_back(
                {record.begin, record.size, {record.places.begin(), record.places.end()}});
        }
        return sums;
    }

    [[nodiscard]] fs::path path_of(std::size_t at) const {
        return like_->catalogue.files.at(files_.at(at)).path;
    }

    std::shared_ptr<const CheckpointTemplate> like_;
    std::vector<std::uint32_t> files_;
    std::optional<std::size_t> open_;
    io::InputFile file_;
    std::optional<formats::StatedSums> sums_;
};

}  // namespace

std::string CheckpointTemplate::name_of(const fs::path& file) const {
    return normal(file).lexically_relative(normal(root)).string();
}

void require_template(const CheckpointTemplate& like) {
    const catalogue::Catalogue& catalogue = like.catalogue;
    if (std::ranges::find(kFormats, catalogue.format) == kFormats.end()) {
        throw Error(ErrorCode::unsupported,
                    "the template " + printable(like.root.string()) + " is a " + catalogue.format +
                        " checkpoint",
                    "give one of: " + joined(kFormats, ", ", [](std::string_view name) {
                        return std::string(name);
                    }));
    }
    if (catalogue.facts.contains(formats::kLoraRank) || adapters::holds_adapter(catalogue)) {
        throw Error(ErrorCode::unsupported,
                    "the template " + printable(like.root.string()) + " holds a LoRA adapter",
                    "give one of a run that trains the whole model");
    }
}

std::vector<publish::Asset> assets_of(const CheckpointTemplate& like) {
    std::set<fs::path> held;
    for (const catalogue::File& file : like.catalogue.files) {
        held.insert(fs::path(file.path).lexically_normal());
    }
    std::vector<publish::Asset> assets;
    const publish::Opener open = own_opener(like.location.directory, like.root);
    const std::function<void(const fs::path&)> walk = [&](const fs::path& directory) {
        const formats::Listing listing = formats::list_directory(directory);
        for (const std::string& name : listing.files) {
            const fs::path file = directory / name;
            if (!held.contains(file) && !is_untrue(name)) {
                assets.push_back(asset_of(open(file), like.name_of(file)));
            }
        }
        for (const std::string& name : listing.directories) {
            const bool is_link = std::ranges::count(listing.links, name) > 0;
            if (!is_link && (!like.location.hf_directory ||
                             !fs::equivalent(directory / name, *like.location.hf_directory))) {
                walk(directory / name);
            }
        }
    };
    const fs::path own = normal(like.location.directory);
    const fs::path root = normal(like.root);
    walk(own);
    for (fs::path above = own; above != root;) {
        const std::string iteration = iteration_in(above.filename().string());
        above = above.parent_path();
        for (const std::string& name : formats::list_directory(above).files) {
            const fs::path file = above / name;
            if (name == kTracker && !iteration.empty()) {  // the template's has perhaps gone on
                assets.push_back({like.name_of(file), {}, iteration, nullptr, {}});
            } else if (is_found_above(name)) {
                assets.push_back(asset_of(open(file), like.name_of(file)));
            }
        }
    }
    std::ranges::sort(assets, natural_less, &publish::Asset::name);
    return assets;
}

TemplateForm::TemplateForm(std::shared_ptr<const CheckpointTemplate> like, const plan::Model& model)
    : like_(std::move(like)) {
    std::map<std::string, std::string> by_logical;
    for (const plan::NamedTensor& named : plan::named_tensors(like_->catalogue, model)) {
        add(named);
        if (named.line != nullptr) {
            by_logical.emplace(named.line->logical, named.tensor.name);
        }
    }
    for (const models::SameRule& rule : model.recipe->same) {
        const bool has_both = by_logical.contains(rule.a) && by_logical.contains(rule.b);
        if (has_both && !model.dialect->has_own_names && model.symbols->holds(rule.condition)) {
            join_copy(by_logical.at(rule.a), by_logical.at(rule.b));
        }
    }
}

void TemplateForm::add(const plan::NamedTensor& named) {
    const catalogue::Tensor& tensor = named.tensor;
    if (named.line != nullptr) {
        lines_.emplace(named.line, named.padding);
    }
    Entry& entry = entries_[tensor.name];
    entry.shape = tensor.shape;
    for (const catalogue::Piece& piece : tensor.pieces) {
        const Bytes width = size_of(tensor.dtype);
        const Bytes begin = piece.base + static_cast<Bytes>(piece.patch.offset) * width;
        const bool is_new = piece.patch.volume() == 0 || taken_.emplace(piece.file, begin).second;
        if (piece.patch.volume() == 0 || !is_new) {
            continue;  // nothing, or the bytes of a tensor that this one is another name of
        }
        Place place;
        for (const layout::Axis& axis : piece.patch.axes) {
            place.piece.box.push_back({axis.lo, axis.extent});
        }
        place.piece.file = like_->name_of(like_->catalogue.files.at(piece.file).path);
        place.piece.path = {
            tensor.name + (tensor.pieces.size() > 1 ? place_text(place.piece.box) : std::string())};
        place.piece.is_copy = piece.replica != 0;
        place.piece.in_template = {piece.file, begin, tensor.dtype};
        place.is_dense = is_row_major(piece.patch);
        entry.places.push_back(std::move(place));
    }
}

void TemplateForm::join_copy(const std::string& copy, const std::string& of) {
    for (Place& place : entries_.at(copy).places) {
        place.piece.is_copy = true;
        entries_.at(of).places.push_back(std::move(place));
    }
    entries_.erase(copy);
}

std::vector<plan::TensorPiece> TemplateForm::pieces(const std::string& name,
                                                    const std::vector<Index>& shape) const {
    const auto found = entries_.find(name);
    if (found == entries_.end()) {
        return {};
    }
    const Entry& entry = found->second;
    if (entry.shape != shape) {
        throw Error(ErrorCode::mismatch,
                    "the template has " + name + " as " + shape_text(entry.shape) +
                        ", the model as " + shape_text(shape),
                    kOtherTemplate);
    }
    std::vector<plan::TensorPiece> pieces;
    for (const Place& place : entry.places) {
        if (!place.is_dense) {
            throw Error(ErrorCode::unsupported,
                        "the template stores " + name + " as a strided view",
                        "save the template again with contiguous tensors");
        }
        pieces.push_back(place.piece);
    }
    return pieces;
}

/// Of layers or experts of which the model has some, it must have all.
void TemplateForm::require_same_size(const std::set<std::string>& written) const {
    std::set<std::string> kinds;
    for (const auto& [name, entry] : entries_) {
        if (is_written(entry, written)) {
            kinds.insert(digits_hidden(name));
        }
    }
    for (const auto& [name, entry] : entries_) {
        if (!is_written(entry, written) && kinds.contains(digits_hidden(name)) &&
            !entry.places.empty()) {
            throw Error(ErrorCode::mismatch,
                        "the template has " + name + ", which the model does not have",
                        kOtherTemplate);
        }
    }
}

bool TemplateForm::is_written(const Entry& entry, const std::set<std::string>& written) {
    return std::ranges::any_of(entry.places, [&](const Place& place) {
        return written.contains(plan::piece_name(place.piece));
    });
}

void TemplateForm::keep_others(plan::Binding& binding) const {
    std::set<std::string> written;
    for (const plan::Target& target : binding.targets) {
        written.insert(target.name);
    }
    require_same_size(written);
    std::vector<std::string> kept;
    for (const auto& [name, entry] : entries_) {
        if (is_written(entry, written) || entry.places.empty()) {
            continue;
        }
        kept.push_back(name);
        for (const Place& place : entry.places) {
            if (place.is_dense) {
                binding.targets.push_back(copied(place.piece, plan::piece_name(place.piece)));
            }
        }
    }
    if (kept.empty()) {
        return;
    }
    const std::string text = counted(kept.size(), "tensor") +
                             " of the template that the model does not have: " + listed(kept);
    if (!like_->keeps_others) {
        throw Error(ErrorCode::mismatch, text,
                    "leave --like_only_weights no out to copy them, or give another template");
    }
    binding.warnings.push_back({"template_tensors", kept.front(), text + "; written as they are"});
}

void TemplateForm::keep_states(plan::Binding& binding) const {
    const std::vector<std::string> states = states_in(like_->catalogue);
    if (states.empty()) {
        return;
    }
    if (!like_->keeps_others) {
        throw Error(ErrorCode::mismatch,
                    "the template holds what a run keeps beside weights: " + listed(states),
                    "leave --like_only_weights no out to copy it, or give another template");
    }
    binding.warnings.push_back(
        {"template_states", "",
         "the template's training state is copied as it is, and belongs to other weights: " +
             listed(states) + "; load the weights alone, as Megatron-LM does with --finetune"});
}

std::map<std::string, const plan::TensorPiece*> TemplateForm::places() const {
    std::map<std::string, const plan::TensorPiece*> places;
    for (const auto& [name, entry] : entries_) {
        for (const Place& place : entry.places) {
            places.emplace(plan::piece_name(place.piece), &place.piece);
        }
    }
    return places;
}

std::shared_ptr<const outputs::Format> TemplateForm::format(plan::Binding& binding) const {
    keep_others(binding);
    keep_states(binding);
    const auto places = this->places();
    std::map<std::uint32_t, std::map<Bytes, Bytes>> spans;  // by file of the run
    outputs::Image image;
    for (const plan::Target& target : binding.targets) {
        const auto& there = *places.at(target.name)->in_template;
        spans[there.file].emplace(there.base, target.bytes());
        image.slots[target.name] = {{there.file, there.base}, is_copied(target, there)};
    }
    std::vector<std::uint32_t> files;
    std::map<std::uint32_t, std::uint32_t> numbers;  // in the image
    for (const auto& [file, taken] : spans) {
        const catalogue::File& source = like_->catalogue.files.at(file);
        const std::string name = like_->name_of(source.path);
        numbers[file] = static_cast<std::uint32_t>(files.size());
        files.push_back(file);
        image.files.push_back({name, source.size});
        for (plan::Target& gap : gaps_in(file, source, name, taken)) {
            image.slots[gap.name] = {{file, gap.operands.front().base}, true};
            binding.targets.push_back(std::move(gap));
        }
    }
    for (auto& [name, slot] : image.slots) {
        slot.place.file = numbers.at(slot.place.file);
    }
    std::ranges::stable_sort(binding.targets, natural_less, &plan::Target::name);
    const auto reader = std::make_shared<ImageReader>(like_, std::move(files));
    image.read = [reader](std::size_t at, Bytes offset, std::span<std::byte> out) {
        reader->read(at, offset, out);
    };
    image.sums = [reader](std::size_t at) { return reader->sums(at); };
    return outputs::image_format_of(std::move(image));
}

}  // namespace shardweld::app
