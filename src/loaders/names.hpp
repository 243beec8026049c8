// Which of the tensors that a family has are stored, whatever they are called and encoded as, and
// what is wrong with names that are others; both ends of a model, embedding and head, by the names
// of its family or by those in use. Sources: transformers 5.24 core_model_loading
// (rename_source_key), run.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "rule.hpp"

namespace shardweld::loaders {

/// Where a tensor of the family is stored.
struct Place {
    std::string name;  ///< "": nowhere
    /// nullopt: of an encoding whose shape is checked elsewhere
    std::optional<std::vector<Index>> shape;
    bool is_other = false;  ///< under a name that servers may not know

    [[nodiscard]] bool is_there() const { return !name.empty(); }
};

/// Finds the tensors of a family by all names that the loader's own renamings know.
class Places {
  public:
    explicit Places(const ModelUnderCheck& model);

    [[nodiscard]] Place of(const std::string& name, const ExpectedTensor& tensor) const;
    /// All names by which tensors of the family may be stored.
    [[nodiscard]] const std::set<std::string>& known() const { return known_; }

  private:
    [[nodiscard]] Place at(const std::string& name) const;
    [[nodiscard]] std::vector<std::string> names_of(const std::string& name,
                                                    const ExpectedTensor& tensor) const;
    [[nodiscard]] Place whole_of(const ExpectedTensor& tensor) const;

    const ModelUnderCheck& model_;
    std::string base_;         ///< "model.", which names of a model with a head begin with
    bool takes_base_ = false;  ///< whether names without it, or with it twice, are taken, too
    bool has_more_ = false;    ///< whether in the tree of modules more stands behind it
    std::set<std::string> known_;
};

/// "model.layers." where `name` is stored behind it, "" for nowhere: what all names have in front.
std::string prefix_before(const ModelUnderCheck& model, const std::string& name);

/// The stored name that shares the longest end with `name`, by components; "" for none.
std::string nearest_to(const ModelUnderCheck& model, const std::string& name);

/// What loaders make themselves, or no longer read.
bool is_computed(std::string_view name);

/// A name that PEFT gives: of a base layer, a factor of an adapter, or anything behind its prefix.
bool is_of_adapter(std::string_view name);

/// A component that a training framework's wrapper adds ("_orig_mod"), or that all names begin with
/// ("module"); "" for none.
std::string wrapper_in(const ModelUnderCheck& model);

inline constexpr std::string_view kHead = "head";  // logical names
inline constexpr std::string_view kEmbedding = "embed";

/// The family's name of a tensor, "" where there is none.
std::string name_of_logical(const Directory& directory, std::string_view logical);

/// Recipes of some composite models know the embedding, and let the rest pass.
bool is_family_whole(const Directory& directory);

/// Whether head and embedding are one; a family knows what config.json means where it says nothing.
std::optional<bool> is_tied(const ModelUnderCheck& model);

/// The name by which the head is stored, "" where it is not.
std::string stored_head(const ModelUnderCheck& model);

}  // namespace shardweld::loaders
