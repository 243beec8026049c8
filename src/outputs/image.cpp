#include "image.hpp"

#include <algorithm>
#include <iterator>

#include "core/crc32.hpp"
#include "core/text.hpp"
#include "shardweld/error.hpp"

namespace shardweld::outputs {

namespace {

constexpr Bytes kMostBeside = Bytes{1} << 28U;
/// What a framer holds for each tensor of a file: the bytes around it, and where sums are.
constexpr Bytes kAroundTensor = 4096;

/// A tensor's bytes in one file.
struct Span {
    Bytes begin = 0;
    Bytes end = 0;
    std::uint32_t tensor = 0;
    bool is_same = false;
};

/// The bytes of a file between its tensors, by where they begin.
using SurroundingBytes = std::map<Bytes, ByteBuffer>;

/// What these bytes add to the CRC-32 of [begin, end).
std::uint32_t share_of(const SurroundingBytes& beside, Bytes begin, Bytes end) {
    std::uint32_t share = 0;
    for (const auto& [offset, bytes] : beside) {
        const Bytes from = std::max(offset, begin);
        const Bytes to = std::min(offset + bytes.size(), end);
        if (from < to) {
            const auto inside = std::span(bytes).subspan(from - offset, to - from);
            share ^= crc32_moved(crc32(inside), end - to);
        }
    }
    return share;
}

/// Four bytes of a sum. Error(unsupported) where they are in no part.
void put_sum(Bytes place, std::uint32_t sum, SurroundingBytes& beside) {
    const auto behind = beside.upper_bound(place);
    const auto part = behind == beside.begin() ? beside.end() : std::prev(behind);
    if (part == beside.end() || place + sizeof(sum) > part->first + part->second.size()) {
        throw Error(ErrorCode::unsupported,
                    "the template states a checksum at byte " + std::to_string(place) +
                        ", far from the tensor that it is of",
                    "give a template that torch.save wrote");
    }
    for (unsigned i = 0; i < sizeof(sum); ++i) {
        part->second[place - part->first + i] = static_cast<std::byte>(sum >> (8 * i) & 0xFFU);
    }
}

class ImageFormat final : public OutputFormat {
  public:
    explicit ImageFormat(Image image) : image_(std::move(image)) {}

    [[nodiscard]] std::string_view name() const override { return "template"; }
    [[nodiscard]] std::vector<std::string_view> endings() const override { return {".pt"}; }
    [[nodiscard]] bool states_checksums() const override { return true; }

    [[nodiscard]] Placement place(const OutputTensors& tensors,
                                  Bytes /*max_shard_size*/) const override {
        Placement placement;
        placement.format = this;
        placement.files = image_.files;
        for (std::uint32_t i = 0; i < tensors.size(); ++i) {
            const auto found = image_.slots.find(tensors[i].name.text());
            if (found == image_.slots.end()) {
                throw Error(ErrorCode::internal,
                            tensors[i].name.text() + " has no place in the template");
            }
            const Slot& place = found->second.place;
            placement.slots.push_back(place);
            placement.files.at(place.file).tensors.push_back(i);
            placement.tensor_bytes += tensors[i].bytes();
        }
        for (PlacedFile& file : placement.files) {
            std::ranges::sort(file.tensors, {},
                              [&](std::uint32_t i) { return placement.slots[i].offset; });
        }
        return placement;
    }

    [[nodiscard]] Framer framer() const override {
        return [this](Placement& placement, std::size_t at, const OutputTensors& tensors) {
            return frame_of(at, spans_of(placement, at, tensors));
        };
    }

    [[nodiscard]] Memory memory(const Placement& placement) const override {
        return {placement.most_tensors() * kAroundTensor, 0};
    }

  private:
    [[nodiscard]] Frame frame_of(std::size_t at, const std::vector<Span>& spans) const {
        const auto beside = std::make_shared<SurroundingBytes>(read_beside(at, spans));
        Frame frame;
        ImageSums stated = image_.sums(at);
        for (const StatedSum& sum : stated.sums) {
            state(sum, spans, *beside, frame);
        }
        for (auto& [text, sums] : stated.texts) {
            if (std::ranges::any_of(sums,
                                    [&](const StatedSum& sum) { return is_changed(sum, spans); })) {
                frame.texts.push_back(std::move(text));
            }
        }
        std::ranges::sort(frame.checksums, {}, &ChecksumPlace::offset);
        for (const auto& [offset, bytes] : *beside) {
            frame.parts.push_back({offset, bytes});
        }
        frame.owner = beside;
        return frame;
    }

    [[nodiscard]] SurroundingBytes read_beside(std::size_t at,
                                               const std::vector<Span>& spans) const {
        SurroundingBytes beside;
        Bytes all = 0;
        Bytes begin = 0;
        const auto read_to = [&](Bytes end) {
            if (end <= begin) {
                return;
            }
            all += end - begin;
            if (all > kMostBeside) {
                throw Error(ErrorCode::unsupported,
                            image_.files[at].name + " has more than " + human_bytes(kMostBeside) +
                                " that are no tensor's",
                            "give a template with weights alone");
            }
            ByteBuffer& bytes = beside[begin];
            bytes.resize(end - begin);
            image_.read(at, begin, bytes);
        };
        for (const Span& span : spans) {
            read_to(span.begin);
            begin = span.end;
        }
        read_to(image_.files[at].size);
        return beside;
    }

    /// The spans of a file's tensors, in order.
    [[nodiscard]] std::vector<Span> spans_of(const Placement& placement, std::size_t file,
                                             const OutputTensors& tensors) const {
        std::vector<Span> spans;
        for (const std::uint32_t i : placement.files.at(file).tensors) {
            const Bytes begin = placement.slots[i].offset;
            spans.push_back({begin, begin + tensors[i].bytes(), i,
                             image_.slots.at(tensors[i].name.text()).is_same});
        }
        std::ranges::sort(spans, {}, &Span::begin);
        return spans;
    }

    /// The spans of tensors that a sum is of, too.
    static std::span<const Span> inside(const StatedSum& sum, const std::vector<Span>& spans) {
        const auto first = std::ranges::partition_point(
            spans, [&](const Span& span) { return span.end <= sum.begin; });
        const auto last = std::partition_point(first, spans.end(), [&](const Span& span) {
            return span.begin < sum.begin + sum.size;
        });
        return {first, last};
    }

    static bool is_changed(const StatedSum& sum, const std::vector<Span>& spans) {
        return std::ranges::any_of(inside(sum, spans),
                                   [](const Span& span) { return !span.is_same; });
    }

    static void state(const StatedSum& sum, const std::vector<Span>& spans,
                      SurroundingBytes& beside, Frame& frame) {
        if (!is_changed(sum, spans)) {
            return;
        }
        const auto tensors = inside(sum, spans);
        const Bytes end = sum.begin + sum.size;
        const bool is_whole = tensors.front().begin >= sum.begin && tensors.back().end <= end;
        const std::uint32_t share = is_whole ? share_of(beside, sum.begin, end) : 0;
        for (const Bytes place : sum.places) {
            put_sum(place, share, beside);
            for (const Span& span : is_whole ? tensors : std::span<const Span>()) {
                frame.checksums.push_back({span.tensor, place, end - span.end});
            }
        }
    }

    Image image_;
};

}  // namespace

std::shared_ptr<const OutputFormat> image_format_of(Image image) {
    return std::make_shared<const ImageFormat>(std::move(image));
}

}  // namespace shardweld::outputs
