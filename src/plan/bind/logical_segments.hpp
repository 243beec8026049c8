// Stored tensors lowered to segments of logical tensors, filed by (logical tensor, segment, layer,
// expert...). This is where dialect and recipe meet.
#pragma once

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "catalogue/tensor.hpp"
#include "plan/binding.hpp"

#include "fuse.hpp"

namespace shardweld::plan {

/// Some elements of a logical segment and where they lie.
struct SegmentSource {
    std::uint32_t file = 0;
    std::uint32_t replica = 0;
    Bytes base = 0;
    layout::Patch patch;  ///< over the segment's axes, sorted by name
};

/// One segment of one logical tensor for fixed index values (layer 3, expert 7).
struct LogicalSegment {
    DType dtype = DType::f32;
    DType written_as = DType::f32;  ///< unless --dtype says more
    std::vector<SegmentSource> sources;
    std::vector<SegmentSource> same;  ///< of another logical tensor that must equal this one
    std::uint32_t name = 0;       ///< a stored tensor it comes from: LogicalSegments::stored_name
    std::uint32_t same_name = 0;  ///< the stored tensor behind `same`
    Index primary_volume = 0;
    Index taken = 0;       ///< elements that targets took
    bool dropped = false;  ///< padding: the dialect says that it is not used
};

struct SegmentKey {
    std::uint32_t segment = 0;     ///< (logical tensor, segment), see LogicalSegments::segment_id
    InlineVector<Index, 4> index;  ///< values of the split axes, sorted by axis name
    friend bool operator==(const SegmentKey&, const SegmentKey&) = default;
};
struct SegmentKeyHash {
    std::size_t operator()(const SegmentKey& key) const;
};

/// A patch and the key it is filed under.
struct Filed {
    SegmentKey key;
    layout::Patch patch;
    std::uint32_t copy = 0;  ///< of which repetition, see models::Line::repeat
};

/// All segments of logical tensors that are stored, by their keys.
class LogicalSegments {
  public:
    explicit LogicalSegments(const Model& model);

    /// Plans for the segments of a line, in the order of its layout's segments; cached.
    const std::vector<SegmentPlan>& plans_of(const models::Line& line);

    /// Files one lowered patch: fuses axes, splits at key axes. Appends to `out`. Error(mismatch)
    /// when config.json cuts it into more parts than any model's layers times experts.
    void file(const models::Line& line, const layout::BoundLayout& bound,
              const layout::SegmentPatch& lowered, const models::Captures& captures,
              std::vector<Filed>& out);

    /// A filed patch by the name of what it holds, the same for the same elements whatever the
    /// line. Indices of its key that the logical tensor's name has no place for are axes again.
    [[nodiscard]] LogicalPatch logical_patch_of(const Filed& filed) const;

    /// Adds a stored tensor taken by a line; `name_id` from name_of.
    void add(const catalogue::Tensor& tensor, const models::Line& line,
             const models::Captures& captures);

    LogicalSegment* find(const SegmentKey& key);

    /// The type of most segments, as they are written.
    [[nodiscard]] DType usual_type() const;

    /// Moves the sources of logical tensor `a` behind those of `b` (rule `same a = b`).
    void tie(const models::SameRule& rule);

    /// Error(mismatch) when the files hold `a` and `b` of a rule in one place, though by
    /// config.json they are two.
    void require_apart(const models::SameRule& rule) const;

    /// A logical tensor of which something does not fit: nothing more is said of it.
    void give_up(const std::string& logical) { given_up_.insert(logical); }
    [[nodiscard]] bool is_given_up(const std::string& logical) const {
        return given_up_.contains(logical);
    }

    /// Stored tensors that were added.
    [[nodiscard]] std::size_t n_stored() const { return names_.size(); }
    [[nodiscard]] const std::string& stored_name(std::uint32_t id) const { return names_[id]; }
    [[nodiscard]] std::string segment_text(std::uint32_t id) const;
    [[nodiscard]] const std::string& logical_of(std::uint32_t id) const {
        return logicals_[id].first;
    }
    [[nodiscard]] std::unordered_map<SegmentKey, LogicalSegment, SegmentKeyHash>& all() {
        return segments_;
    }

  private:
    std::uint32_t segment_id(const std::string& logical, const std::string& segment);
    void note_axes(const SegmentPlan& plan);
    LogicalSegment& segment_at(const SegmentKey& key, const catalogue::Tensor& tensor,
                               std::uint32_t name);
    const layout::BoundLayout& bound_for(const models::Line& line, const std::vector<Index>& shape,
                                         const models::Captures& captures);

    Model model_;
    std::map<std::pair<std::string, std::string>, std::uint32_t> ids_;
    std::vector<std::pair<std::string, std::string>> logicals_;  // by segment id
    std::vector<std::vector<std::string>> axes_;                 // by segment id: of filed patches
    std::map<std::string, std::vector<std::string>> captures_of_logical_;
    std::unordered_map<const models::Line*, std::vector<SegmentPlan>> plans_;
    std::map<std::pair<const models::Line*, std::vector<Index>>, layout::BoundLayout> bound_;
    std::unordered_map<SegmentKey, LogicalSegment, SegmentKeyHash> segments_;
    std::vector<std::string> names_;
    std::set<std::string> given_up_;
};

/// Extents of all axes a layout names, in a fixed order (the cache key of a bound layout).
std::vector<Index> extents_of(const layout::Layout& layout, const models::Symbols& symbols,
                              const models::Captures& captures);

}  // namespace shardweld::plan
