// Layout text (the first line) with extents taken from the bytes behind it. The segments of the
// whole tensor, and of any box in it, must hold each of its elements once.
#include <cstdint>
#include <string_view>

#include "layout/expression.hpp"

#include "expect.hpp"

namespace {

using namespace shardweld;

/// Small numbers from bytes; 1 when they are used up.
class Numbers {
  public:
    explicit Numbers(std::string_view bytes) : bytes_(bytes) {}
    Index next(Index below) {
        const auto byte = bytes_.empty() ? 1U : static_cast<unsigned char>(bytes_.front());
        bytes_.remove_prefix(bytes_.empty() ? 0 : 1);
        return static_cast<Index>(byte) % below;
    }

  private:
    std::string_view bytes_;
};

bool has_star(const layout::Layout& layout) {
    return layout.text.find('*') != std::string::npos;
}

void check_lowered(const layout::BoundLayout& bound, const layout::Patch& patch) {
    std::vector<layout::SegmentPatch> parts;
    bound.lower(patch, parts);
    Index volume = 0;
    for (const auto& part : parts) {
        const auto& extents = bound.extents(part.segment);
        const auto& axes = part.patch.axes;
        fuzz::require(axes.size() == extents.size());
        for (std::size_t k = 0; k < axes.size(); ++k) {
            fuzz::require(axes[k].lo >= 0 && axes[k].extent >= 0 &&
                          axes[k].lo <= extents[k] - axes[k].extent);
        }
        volume = checked_add(volume, part.patch.volume(), "parts");
    }
    fuzz::require(volume == patch.volume());
}

void check(const layout::Layout& layout, Numbers numbers) {
    std::vector<Index> stored;
    for (std::size_t k = 0; k < layout.dims.size(); ++k) {
        stored.push_back(numbers.next(50));
    }
    const layout::ExtentOf extent_of = [&](const std::string& name) {
        constexpr Index kHuge = Index{1} << 40;
        const Index small = numbers.next(12);
        return small == 11 ? kHuge + static_cast<Index>(name.size()) : small;
    };
    const auto bound = has_star(layout) ? layout::BoundLayout::bind(layout, extent_of, stored)
                                        : layout::BoundLayout::bind(layout, extent_of);
    volume_of(bound.shape(), "a shape");
    const layout::Patch whole = layout::dense_shape(bound.shape());
    check_lowered(bound, whole);
    layout::Box box;
    for (const Index extent : bound.shape()) {
        const Index lo = extent == 0 ? 0 : numbers.next(extent);
        box.push_back({lo, extent == lo ? 0 : 1 + numbers.next(extent - lo)});
    }
    if (const auto part = layout::clip(whole, box)) {
        check_lowered(bound, *part);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const std::size_t end = std::min(text.find('\n'), text.size());
    fuzz::expect_errors_only([&] {
        const auto layout = layout::parse_layout(text.substr(0, end));
        static_cast<void>(layout::segments_of(layout));
        fuzz::expect_errors_only(
            [&] { static_cast<void>(layout::with_leading_axis(layout, "layers")); });
        check(layout, Numbers(text.substr(end)));
    });
    return 0;
}
