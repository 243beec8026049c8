#include "template_form.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <tuple>

#include "core/names/natural_order.hpp"
#include "core/text.hpp"
#include "formats/containers/zip.hpp"
#include "formats/shared/neighbour_names.hpp"
#include "formats/stated_sums.hpp"
#include "io/input_file.hpp"
#include "layout/patch.hpp"
#include "outputs/image.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

/// Bytes between tensors that are copied as tensors are, beside those that archives state sums in:
/// behind each tensor, and at the end of the file.
constexpr Bytes kLargeGap = Bytes{1} << 20U;
constexpr Bytes kSumsBehindTensor = Bytes{1} << 16U;
constexpr Bytes kSumsAtEnd = Bytes{1} << 24U;

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

/// A tensor of the template as it is.
plan::Target copied(const plan::TensorPiece& piece, const std::string& name) {
    plan::Target target;
    target.name = name;
    target.source = piece.path.back();
    target.shape = collect_list(piece.box, &layout::Range::extent);
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
    return collect_list(
        catalogue.ignored,
        [&](const catalogue::Ignored& row) {
            return row.pattern + " (" + human_bytes(row.bytes) + ")";
        },
        [&](const catalogue::Ignored& row) {
            return row.reason == formats::kTrainingState && row.bytes > 0;
        });
}

/// The large gaps of a file between these spans of bytes, as tensors of bytes.
plan::Targets gaps_in(std::uint32_t file, const outputs::PlacedFile& source,
                      const std::map<Bytes, Bytes>& spans) {
    plan::Targets gaps;
    Bytes begin = 0;
    const auto add = [&](Bytes end) {
        const Bytes from = begin == 0 ? 0 : begin + kSumsBehindTensor;
        if (end <= from || end - from < kLargeGap) {
            return;
        }
        const Bytes size = end - from;
        plan::TensorPiece piece;
        piece.file = source.name;
        piece.path = {"[" + std::to_string(from) + ", " + std::to_string(end) + ")"};
        piece.box.push_back({0, static_cast<Index>(size)});
        piece.in_template = plan::TensorPiece::InTemplate{file, from, DType::u8};
        gaps.push_back(copied(piece, plan::piece_name(piece)));
    };
    for (const auto& [at, size] : spans) {
        add(at);
        begin = at + size;
    }
    add(source.size - std::min(source.size, kSumsAtEnd));
    return gaps;
}

/// Reads the template's own files by their numbers; the one that was read last stays open. Each is
/// still the one that was surveyed when it has been read.
class ImageReader {
  public:
    explicit ImageReader(std::shared_ptr<const Checkpoint> like) : like_(std::move(like)) {}

    void read(std::size_t at, Bytes offset, ByteSpan out) {
        if (open_ != at) {
            file_ = io::InputFile::open(path_of(at));
            open_ = at;
        }
        file_.read_at(offset, out);
        file_.require(like_->stamps.at(at));
    }

    outputs::ImageSums sums(std::size_t at) {
        if (!sums_) {
            sums_.emplace(absolute_directory(*like_));
        }
        const formats::FileSums own =
            sums_->of(path_of(at).lexically_relative(absolute_directory(*like_)).string());
        io::InputFile::open(path_of(at)).require(like_->stamps.at(at));
        outputs::ImageSums all{stated(own.records), {}};
        for (const formats::FingerprintPlace& one : own.fingerprints) {
            outputs::ChecksumText text{
                one.record.offset, one.digits, {}, one.record.sums, formats::fingerprint_of};
            for (const formats::ZipEntry& record : one.of) {
                text.sums.push_back(record.sums.back());
            }
            all.texts.emplace_back(std::move(text), stated(one.of));
        }
        return all;
    }

  private:
    static std::vector<outputs::StatedSum> stated(const std::vector<formats::ZipEntry>& records) {
        return collect_list(records, [&](const formats::ZipEntry& record) {
            return outputs::StatedSum{
                record.offset, record.size, {record.sums.begin(), record.sums.end()}};
        });
    }

    [[nodiscard]] fs::path path_of(std::size_t at) const {
        return like_->catalogue.files.at(like_->first_file + at).path;
    }

    std::shared_ptr<const Checkpoint> like_;
    std::optional<std::size_t> open_;
    io::InputFile file_;
    std::optional<formats::StatedSums> sums_;
};

}  // namespace

bool TemplateForm::TensorExtent::overlaps(const TensorExtent& other) const {
    return file == other.file && begin < other.end && other.begin < end;
}

bool TemplateForm::TensorExtent::is_same_as(const TensorExtent& other) const {
    return is_dense && other.is_dense && begin == other.begin && end == other.end;
}

/// Each would be written over the other's bytes.
void TemplateForm::require_apart(const plan::Model& model) {
    const auto is_tied = [&](const std::string& a, const std::string& b) {
        return std::ranges::any_of(model.recipe->same, [&](const models::SameRule& rule) {
            return ((rule.a == a && rule.b == b) || (rule.a == b && rule.b == a)) &&
                   model.symbols->holds(rule.condition);
        });
    };
    const auto may_share = [&](const TensorExtent& a, const TensorExtent& b) {
        const bool is_of_model = !a.logical.empty() || !b.logical.empty();
        // Boxes of one tensor may lie interleaved.
        return a.tensor == b.tensor
                   ? !(a.is_dense && b.is_dense)
                   : a.is_same_as(b) && (!is_of_model || is_tied(a.logical, b.logical));
    };
    std::ranges::sort(extents_, {}, [](const TensorExtent& extent) {
        return std::tuple(extent.file, extent.begin, extent.end);
    });
    const TensorExtent* longest = nullptr;
    for (const TensorExtent& extent : extents_) {
        if (longest != nullptr && longest->overlaps(extent) && !may_share(*longest, extent)) {
            throw Error(ErrorCode::unsupported,
                        "the template's tensors " + printable(longest->tensor) + " and " +
                            printable(extent.tensor) + " share bytes of " +
                            name_in_template(*like_, like_->catalogue.files.at(extent.file).path) +
                            ": each would be written over the other",
                        "save the template again, each tensor a clone() of its own");
        }
        longest = longest == nullptr || longest->file != extent.file || longest->end < extent.end
                      ? &extent
                      : longest;
    }
    extents_.clear();
}

TemplateForm::TemplateForm(std::shared_ptr<const Checkpoint> like, const plan::Model& model)
    : like_(std::move(like)) {
    std::map<std::string, std::string> by_logical;
    for (const plan::NamedTensor& named : plan::named_tensors(like_->catalogue, model)) {
        add(named);
        if (named.line != nullptr) {
            by_logical.emplace(named.line->logical, named.tensor.name);
        }
    }
    require_apart(model);
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
        if (piece.patch.volume() == 0) {
            continue;
        }
        const bool is_dense = is_row_major(piece.patch);
        const auto length = static_cast<Bytes>(layout::address_span(piece.patch).extent) * width;
        extents_.push_back({piece.file, begin, begin + length, is_dense, tensor.name,
                            named.line == nullptr ? "" : named.line->logical});
        if (!taken_.emplace(piece.file, begin).second) {
            continue;  // the bytes of a tensor that this one is another name of
        }
        DensePiece place;
        place.piece.box = layout::box_of(piece.patch);
        place.piece.file = name_in_template(*like_, like_->catalogue.files.at(piece.file).path);
        place.piece.path = {tensor.name + (tensor.pieces.size() > 1
                                               ? plan::corner_text(place.piece.box)
                                               : std::string())};
        place.piece.is_copy = piece.replica != 0;
        place.piece.in_template = plan::TensorPiece::InTemplate{piece.file, begin, tensor.dtype};
        place.is_dense = is_dense;
        entry.places.push_back(std::move(place));
    }
}

void TemplateForm::join_copy(const std::string& copy, const std::string& of) {
    for (DensePiece& place : entries_.at(copy).places) {
        place.piece.is_copy = true;
        entries_.at(of).places.push_back(std::move(place));
    }
    entries_.erase(copy);
}

std::vector<plan::TensorPiece> TemplateForm::pieces(const std::string& name,
                                                    const std::vector<Index>& shape) const {
    auto* const found = find_value(entries_, name);
    if (found == nullptr) {
        return {};
    }
    const Entry& entry = *found;
    if (entry.shape != shape) {
        throw Error(ErrorCode::mismatch,
                    "the template has " + name + " as " + shape_text(entry.shape) +
                        ", the model as " + shape_text(shape),
                    kOtherTemplate);
    }
    std::vector<plan::TensorPiece> pieces;
    for (const DensePiece& place : entry.places) {
        if (!place.is_dense) {
            throw Error(ErrorCode::unsupported,
                        "the template stores " + name + " as a strided view",
                        "save the template again with contiguous tensors");
        }
        pieces.push_back(place.piece);
    }
    return pieces;
}

/// Error(mismatch) where the model has some of the template's layers or experts, but not all.
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
    return std::ranges::any_of(entry.places, [&](const DensePiece& place) {
        return written.contains(plan::piece_name(place.piece));
    });
}

void TemplateForm::keep_others(plan::Binding& binding) const {
    std::set<std::string> written = collect_set(binding.targets, plan::full_name);
    require_same_size(written);
    std::vector<std::string> kept;
    for (const auto& [name, entry] : entries_) {
        if (is_written(entry, written) || entry.places.empty()) {
            continue;
        }
        kept.push_back(name);
        for (const DensePiece& place : entry.places) {
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
        for (const DensePiece& place : entry.places) {
            places.emplace(plan::piece_name(place.piece), &place.piece);
        }
    }
    return places;
}

void TemplateForm::add_gaps(plan::Binding& binding, outputs::Image& image) const {
    std::map<std::uint32_t, std::map<Bytes, Bytes>> spans;  // by file: begin and size
    for (const plan::Target& target : binding.targets) {
        const outputs::ImageSlot& slot = image.slots.at(target.name);
        spans[slot.place.file].emplace(slot.place.offset, target.bytes());
    }
    for (std::uint32_t at = 0; at < image.files.size(); ++at) {
        for (plan::Target& gap : gaps_in(like_->first_file + at, image.files[at], spans[at])) {
            image.slots[gap.name] = {{at, gap.operands.front().base}, true};
            binding.targets.push_back(std::move(gap));
        }
    }
}

std::shared_ptr<const outputs::OutputFormat> TemplateForm::format(plan::Binding& binding) const {
    keep_others(binding);
    keep_states(binding);
    outputs::Image image;
    const std::vector<catalogue::File>& files = like_->catalogue.files;
    for (std::size_t at = like_->first_file; at < files.size(); ++at) {
        image.files.push_back(
            {name_in_template(*like_, files[at].path), "", 0, {}, files[at].size});
    }
    const auto places = this->places();
    for (const plan::Target& target : binding.targets) {
        const auto& there = *places.at(target.name)->in_template;
        image.slots[target.name] = {{there.file - like_->first_file, there.base},
                                    is_copied(target, there)};
    }
    add_gaps(binding, image);
    sort_naturally(binding.targets, &plan::Target::name);
    const auto reader = std::make_shared<ImageReader>(like_);
    image.read = [reader](std::size_t at, Bytes offset, ByteSpan out) {
        reader->read(at, offset, out);
    };
    image.sums = [reader](std::size_t at) { return reader->sums(at); };
    return outputs::image_format_of(std::move(image));
}

}  // namespace shardweld::app
