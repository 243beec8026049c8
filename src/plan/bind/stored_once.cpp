#include "stored_once.hpp"

#include "shardweld/core/error.hpp"

namespace shardweld::plan {

layout::Cover::Kind cover_by(const std::vector<layout::Patch>& parts, const layout::Patch& wanted,
                             const std::string& name) {
    using Kind = layout::Cover::Kind;
    std::vector<const layout::Patch*> boxes;
    boxes.reserve(parts.size());
    Index volume = 0;
    for (const layout::Patch& part : parts) {
        boxes.push_back(&part);
        volume = checked_add(volume, part.volume(), name);
    }
    const Kind kind = layout::check_cover(wanted, boxes).kind;
    if (kind == Kind::irregular) {
        throw Error(ErrorCode::unsupported, name + ": too many pieces that form no grid");
    }
    // With so many elements, what leaves a gap here overlaps elsewhere.
    return kind == Kind::gap && volume >= wanted.volume() ? Kind::overlap : kind;
}

}  // namespace shardweld::plan
