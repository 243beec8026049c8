#include "unwritten_files.hpp"

#include <algorithm>
#include <set>

#include "core/crc32.hpp"
#include "execute/part_reader.hpp"
#include "plan/plan.hpp"
#include "shardweld/error.hpp"

namespace shardweld::mount {

namespace {

constexpr Bytes kSum = 4;
constexpr Bytes kMostDigits = 64;
// Frames that are kept, where they can be made again.
constexpr std::size_t kFrames = 4;

/// Whether a few of a tensor's elements lie far apart in the checkpoint.
bool is_turned(const plan::Target& target) {
    return std::ranges::any_of(target.operands, [](const plan::Operand& operand) {
        return operand.copy.loops.size() > 1 &&
               std::ranges::none_of(operand.copy.loops, [](const auto& loop) {
                   return loop.src_stride == 1 && loop.dst_stride == 1;
               });
    });
}

/// Copies what `from`, at `begin`, has of `out`, at `offset`.
void overlay(Bytes begin, ByteView from, Bytes offset, ByteSpan out) {
    const Bytes lo = std::max(begin, offset);
    const Bytes hi = std::min(begin + from.size(), offset + out.size());
    if (lo < hi) {
        std::ranges::copy(from.subspan(lo - begin, hi - lo), out.subspan(lo - offset).begin());
    }
}

bool meets(Bytes place, Bytes size, Bytes begin, Bytes end) {
    return place < end && begin < place + size;
}

}  // namespace

UnwrittenFiles::UnwrittenFiles(app::Unwritten& model, const std::string& card) : model_(model) {
    settle_frames();
    const plan::Plan& plan = model.plan();
    for (const std::size_t at : indices(plan.placement.files)) {
        add_tensor_file(at);
    }
    for (publish::Asset& asset : model.output().assets()) {
        add_asset(std::move(asset));
    }
    if (!card.empty()) {
        add_asset({"README.md", {}, card});
    }
}

Index UnwrittenFiles::modified_ns() const {
    const auto& stamps = model_.merge().input.stamps;
    return stamps.empty() ? 0
                          : std::ranges::max(stamps, {}, &io::FileStamp::modified_ns).modified_ns;
}

/// Places that a library has to tell are asked for at once.
void UnwrittenFiles::settle_frames() {
    app::Output& output = model_.output();
    outputs::Placement& placement = output.plan.placement;
    placement.format->embed_config(placement, output.config_text);
    framer_ = placement.format->framer();
    if (framer_) {
        tensors_ = plan::output_tensors(output.plan.targets);
    }
    if (!placement.is_settled) {
        for (const std::size_t at : indices(placement.files)) {
            frames_.emplace_front(
                at, std::make_shared<outputs::Frame>(framer_(placement, at, tensors_)));
        }
        placement.is_settled = true;
        framer_ = {};
    }
}

void UnwrittenFiles::add_tensor_file(std::size_t at) {
    const plan::Plan& plan = model_.plan();
    const outputs::PlacedFile& file = plan.placement.files[at];
    std::vector<std::uint32_t> held;
    bool in_strips = false;
    for (const std::uint32_t tensor : file.tensors) {
        if (plan.tensor(tensor).bytes() > 0) {
            held.push_back(tensor);
        }
        const plan::Target& target = plan.target_of(tensor);
        in_strips = in_strips || !execute::is_read_alone(target) || is_turned(target);
    }
    std::ranges::sort(held, {}, [&](std::uint32_t tensor) { return begin_of(tensor); });
    files_.push_back({file.name, file.size, in_strips});
    held_.push_back(std::move(held));
}

void UnwrittenFiles::add_asset(publish::Asset asset) {
    files_.push_back({asset.name, asset.size()});
    assets_.push_back(std::move(asset));
}

void UnwrittenFiles::read(std::size_t file, Bytes offset, ByteSpan out) {
    if (file < held_.size()) {
        read_made(file, offset, out);
        return;
    }
    const publish::Asset& asset = assets_[file - held_.size()];
    if (asset.text) {
        overlay(0, std::as_bytes(std::span(*asset.text)), offset, out);
    } else if (asset.file) {
        asset.file->read_at(offset, out);
        asset.file->require(asset.stamp);
    } else {
        throw Error(ErrorCode::io, "no right to read " + asset.source.string());
    }
}

/// Where a tensor lies in its file.
Bytes UnwrittenFiles::begin_of(std::uint32_t tensor) const {
    return model_.plan().placement.slots[tensor].offset;
}

Bytes UnwrittenFiles::end_of(std::uint32_t tensor) const {
    return begin_of(tensor) + model_.plan().tensor(tensor).bytes();
}

void UnwrittenFiles::read_made(std::size_t file, Bytes offset, ByteSpan out) {
    const std::vector<std::uint32_t>& held = held_[file];
    const Bytes end = offset + out.size();
    auto next = std::ranges::upper_bound(held, offset, {},
                                         [&](std::uint32_t tensor) { return end_of(tensor); });
    for (Bytes at = offset; at < end;) {
        const Bytes begin = next == held.end() ? end : std::min(begin_of(*next), end);
        if (at < begin) {
            fill_between(file, at, out.subspan(at - offset, begin - at));
            at = begin;
            continue;
        }
        const Bytes until = std::min(end_of(*next), end);
        read_tensor(*next, at - begin_of(*next), out.subspan(at - offset, until - at));
        at = until;
        ++next;
    }
}

/// Bytes of a tensor from its byte `begin` on, which may lie inside an element.
void UnwrittenFiles::read_tensor(std::uint32_t tensor, Bytes begin, ByteSpan out) {
    const plan::WrittenTensor& written = model_.plan().tensor(tensor);
    const Bytes size = size_of(written.dtype);
    const Bytes first = begin / size;
    const Bytes last = (begin + out.size() + size - 1) / size;
    const layout::Range elements{static_cast<Index>(first), static_cast<Index>(last - first)};
    const bool is_whole = (last - first) * size == out.size();
    ByteBuffer wider(is_whole ? 0 : (last - first) * size);
    try {
        model_.readers().read_elements(tensor, elements, is_whole ? out : std::span(wider));
    } catch (Error& error) {
        error.add_context("tensor " + written.name.text());
        throw;
    }
    if (!is_whole) {
        overlay(first * size, wider, begin, out);
    }
}

/// What is no tensor's.
void UnwrittenFiles::fill_between(std::size_t file, Bytes offset, ByteSpan out) {
    std::ranges::fill(out, std::byte{});
    if (const auto frame = frame_of(file)) {
        for (const outputs::FileBytes& part : frame->parts) {
            overlay(part.offset, part.bytes, offset, out);
        }
        put_sums(*frame, offset, out);
    }
    const outputs::PlacedFile& placed = model_.plan().placement.files[file];
    overlay(placed.header_offset, std::as_bytes(std::span(placed.header)), offset, out);
}

/// Checksums of tensors that a part of a frame states, which are known when the tensors are read.
void UnwrittenFiles::put_sums(const outputs::Frame& frame, Bytes offset, ByteSpan out) {
    const Bytes end = offset + out.size();
    std::set<Bytes> wanted;  // by those of digits that follow from them
    for (const outputs::ChecksumText& text : frame.texts) {
        if (meets(text.record, text.offset + kMostDigits - text.record, offset, end) ||
            std::ranges::any_of(text.own,
                                [&](Bytes place) { return meets(place, kSum, offset, end); })) {
            wanted.insert(text.sums.begin(), text.sums.end());
        }
    }
    std::map<std::uint32_t, std::uint32_t> sums;
    for (const outputs::ChecksumPlace& place : frame.checksums) {
        if (meets(place.offset, kSum, offset, end) || wanted.contains(place.offset)) {
            sums[place.tensor] = sum_of(place.tensor);
        }
    }
    if (!sums.empty()) {
        for (const auto& [begin, bytes] : execute::stated_parts(frame, sums)) {
            overlay(begin, bytes, offset, out);
        }
    }
}

std::shared_ptr<const outputs::Frame> UnwrittenFiles::frame_of(std::size_t file) {
    const std::lock_guard lock(mutex_);
    const auto known = std::ranges::find(frames_, file, [](const auto& one) { return one.first; });
    if (known != frames_.end()) {
        frames_.splice(frames_.begin(), frames_, known);
        return known->second;
    }
    if (!framer_) {
        return nullptr;
    }
    // It is settled, so that its framer changes nothing of it.
    auto frame =
        std::make_shared<outputs::Frame>(framer_(model_.output().plan.placement, file, tensors_));
    frames_.emplace_front(file, frame);
    if (frames_.size() > kFrames) {
        frames_.pop_back();
    }
    return frame;
}

std::uint32_t UnwrittenFiles::sum_of(std::uint32_t tensor) {
    {
        const std::lock_guard lock(mutex_);
        if (auto* const known = find_value(sums_, tensor)) {
            return *known;
        }
    }
    const Bytes size = model_.plan().tensor(tensor).bytes();
    ByteBuffer part;
    std::uint32_t sum = 0;
    for (Bytes at = 0; at < size; at += part.size()) {
        part.resize(std::min(kStrip, size - at));
        read_tensor(tensor, at, part);
        sum = crc32(part, sum);
    }
    const std::lock_guard lock(mutex_);
    sums_[tensor] = sum;
    return sum;
}

}  // namespace shardweld::mount
