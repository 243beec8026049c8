// The tensors of a template (--like) as the places of a model's, and its files with the model's
// tensors in them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "outputs/format.hpp"
#include "plan/binding.hpp"
#include "plan/pieces.hpp"

#include "checkpoint_template.hpp"

namespace shardweld::outputs {
struct Image;
}  // namespace shardweld::outputs

namespace shardweld::app {

/// What to do where it is of another model.
inline constexpr const char* kOtherTemplate = "give a template that was saved of this model";

/// Its tensors as the places of a model's. Not for more than one binding at once.
class TemplateForm {
  public:
    /// `model`: recipe, dialect and symbols of the template's own names. Error as by bind.
    TemplateForm(std::shared_ptr<const Checkpoint> like, const plan::Model& model);

    /// Lines of the dialect that it has tensors of, with their rows of padding.
    [[nodiscard]] const std::map<const models::Line*, Index>& lines() const { return lines_; }
    [[nodiscard]] bool has(const std::string& name) const { return entries_.contains(name); }
    /// Its pieces of a tensor, and of a tied one's copy; none where it has no such tensor.
    /// Error(mismatch) where its shape is another.
    [[nodiscard]] std::vector<plan::TensorPiece> pieces(const std::string& name,
                                                        const std::vector<Index>& shape) const;

    /// Its files with these targets in their places; adds those of tensors that only it has, and
    /// tells of them. Error(mismatch) where these are refused, or of a larger model.
    [[nodiscard]] std::shared_ptr<const outputs::OutputFormat> format(plan::Binding& binding) const;

    [[nodiscard]] const Checkpoint& checkpoint() const { return *like_; }

  private:
    struct DensePiece {
        plan::TensorPiece piece;
        bool is_dense = true;
    };
    struct Entry {
        std::vector<Index> shape;
        std::vector<DensePiece> places;
    };
    /// Where a tensor's bytes lie.
    struct TensorExtent {
        std::uint32_t file = 0;
        Bytes begin = 0;
        Bytes end = 0;
        bool is_dense = true;
        std::string tensor;
        std::string logical;  ///< "": none of the model's

        [[nodiscard]] bool overlaps(const TensorExtent& other) const;
        [[nodiscard]] bool is_same_as(const TensorExtent& other) const;
    };
    void add(const plan::NamedTensor& named);
    /// Error(unsupported) where tensors share bytes, but for those that the model ties.
    void require_apart(const plan::Model& model);
    /// The copy of a tied tensor becomes further places of that.
    void join_copy(const std::string& copy, const std::string& of);
    static bool is_written(const Entry& entry, const std::set<std::string>& written);
    void require_same_size(const std::set<std::string>& written) const;
    void keep_others(plan::Binding& binding) const;
    void keep_states(plan::Binding& binding) const;
    /// Adds what lies between targets and is large.
    void add_gaps(plan::Binding& binding, outputs::Image& image) const;
    /// By plan::piece_name.
    [[nodiscard]] std::map<std::string, const plan::TensorPiece*> places() const;

    std::shared_ptr<const Checkpoint> like_;
    std::map<std::string, Entry> entries_;  ///< by name
    std::map<const models::Line*, Index> lines_;
    std::vector<TensorExtent> extents_;
    std::set<std::pair<std::uint32_t, Bytes>> taken_;  ///< files and offsets where tensors begin
};

}  // namespace shardweld::app
