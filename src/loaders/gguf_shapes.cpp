#include "gguf_shapes.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "core/text.hpp"

namespace shardweld::loaders {

namespace {

using Extent = std::optional<Index>;

Extent product(Extent a, Extent b) {
    return a && b && *a > 0 && *b > 0 ? Extent(checked_mul(*a, *b, "an extent")) : std::nullopt;
}

/// What metadata says of a model's sizes.
class GgufSizes {
  public:
    explicit GgufSizes(const GgufNumber& number) : number_(number) {}

    /// The extent that has this name in the table below.
    [[nodiscard]] Extent of(std::string_view name) const {
        const Extent heads = number_("attention.head_count");
        if (name == "queries") {
            return product(heads, head());
        }
        if (name == "keys" || name == "values") {
            return product(key_heads(), name == "keys" ? head() : value_head());
        }
        if (name == "outputs") {
            return product(heads,
                           is_latent() ? number_("attention.value_length_mla") : value_head());
        }
        return latent(name, heads);
    }

    [[nodiscard]] bool is_latent() const { return number_("attention.kv_lora_rank").has_value(); }

  private:
    [[nodiscard]] Extent latent(std::string_view name, Extent heads) const {
        const Extent turned = number_("rope.dimension_count");
        const Extent rank = number_("attention.kv_lora_rank");
        const Extent key = number_("attention.key_length_mla");
        if (name == "mla_queries") {
            return product(heads, key);
        }
        if (name == "mla_keys") {
            return turned && rank ? Extent(*rank + *turned) : std::nullopt;
        }
        if (name == "mla_part") {
            return turned && key ? Extent(*key - *turned) : std::nullopt;
        }
        return plain(name);
    }

    [[nodiscard]] Extent plain(std::string_view name) const {
        const Extent expert = number_("expert_feed_forward_length");
        if (name == "head") {
            return head();
        }
        if (name == "expert") {
            return expert ? expert : number_("feed_forward_length");
        }
        if (name == "shared") {
            const Extent own = number_("expert_shared_feed_forward_length");
            return own ? own : product(expert, number_("expert_shared_count"));
        }
        return number_(std::string(name));
    }

    [[nodiscard]] Extent head() const {
        const Extent own = number_("attention.key_length");
        const Extent width = number_("embedding_length");
        const Extent heads = number_("attention.head_count");
        return own ? own : width && heads && *heads > 0 ? Extent(*width / *heads) : std::nullopt;
    }
    [[nodiscard]] Extent value_head() const {
        const Extent own = number_("attention.value_length");
        return own ? own : head();
    }
    [[nodiscard]] Extent key_heads() const {
        const Extent own = number_("attention.head_count_kv");
        return own ? own : number_("attention.head_count");
    }

    const GgufNumber& number_;
};

/// Which decoders have a tensor in this shape.
enum class In { all, plain, latent };

struct GgufPart {
    std::string_view name;  ///< behind the number of the layer
    In in;
    std::string_view extents;
};

constexpr std::array<GgufPart, 32> kGgufParts = {{
    {"attn_norm.weight", In::all, "embedding_length"},
    {"ffn_norm.weight", In::all, "embedding_length"},
    {"post_attention_norm.weight", In::all, "embedding_length"},
    {"post_ffw_norm.weight", In::all, "embedding_length"},
    {"attn_output.weight", In::all, "embedding_length outputs"},
    {"ffn_gate.weight", In::all, "feed_forward_length embedding_length"},
    {"ffn_up.weight", In::all, "feed_forward_length embedding_length"},
    {"ffn_down.weight", In::all, "embedding_length feed_forward_length"},
    {"ffn_gate_inp.weight", In::all, "expert_count embedding_length"},
    {"exp_probs_b.bias", In::all, "expert_count"},
    {"ffn_gate_exps.weight", In::all, "expert_count expert embedding_length"},
    {"ffn_up_exps.weight", In::all, "expert_count expert embedding_length"},
    {"ffn_down_exps.weight", In::all, "expert_count embedding_length expert"},
    {"ffn_gate_shexp.weight", In::all, "shared embedding_length"},
    {"ffn_up_shexp.weight", In::all, "shared embedding_length"},
    {"ffn_down_shexp.weight", In::all, "embedding_length shared"},
    {"attn_q.weight", In::plain, "queries embedding_length"},
    {"attn_k.weight", In::plain, "keys embedding_length"},
    {"attn_v.weight", In::plain, "values embedding_length"},
    {"attn_q.bias", In::plain, "queries"},
    {"attn_k.bias", In::plain, "keys"},
    {"attn_v.bias", In::plain, "values"},
    {"attn_q_norm.weight", In::plain, "head"},
    {"attn_k_norm.weight", In::plain, "head"},
    {"attn_q_a.weight", In::latent, "attention.q_lora_rank embedding_length"},
    {"attn_q_a_norm.weight", In::latent, "attention.q_lora_rank"},
    {"attn_q_b.weight", In::latent, "mla_queries attention.q_lora_rank"},
    {"attn_q.weight", In::latent, "mla_queries embedding_length"},
    {"attn_kv_a_mqa.weight", In::latent, "mla_keys embedding_length"},
    {"attn_kv_a_norm.weight", In::latent, "attention.kv_lora_rank"},
    {"attn_k_b.weight", In::latent, "attention.head_count attention.kv_lora_rank mla_part"},
    {"attn_v_b.weight", In::latent,
     "attention.head_count attention.value_length_mla attention.kv_lora_rank"},
}};

/// "attn_q.weight" of "blk.3.attn_q.weight".
std::string_view part_of(std::string_view name) {
    constexpr std::string_view kBlock = "blk.";
    const std::size_t dot = name.find('.', kBlock.size());
    return name.starts_with(kBlock) && dot != std::string_view::npos ? name.substr(dot + 1)
                                                                     : std::string_view();
}

/// None where metadata does not tell all of them.
std::vector<Index> extents_of(std::string_view part, const GgufSizes& sizes) {
    std::vector<Index> extents;
    for (const GgufPart& known : kGgufParts) {
        if (known.name != part || (known.in == In::plain && sizes.is_latent()) ||
            (known.in == In::latent && !sizes.is_latent())) {
            continue;
        }
        for (const std::string_view word : split(known.extents, ' ')) {
            const Extent extent = sizes.of(word);
            if (!extent) {
                return {};
            }
            extents.push_back(*extent);
        }
    }
    return extents;
}

}  // namespace

std::vector<std::string> wrong_gguf_shapes(
    const std::string& architecture, const GgufNumber& number,
    const std::map<std::string, std::vector<Index>>& tensors) {
    std::vector<std::string> wrong;
    if (std::ranges::find(kShapedGguf, architecture) == kShapedGguf.end()) {
        return wrong;
    }
    const GgufSizes sizes(number);
    std::map<std::string_view, std::vector<Index>> expected;
    for (const auto& [name, extents] : tensors) {
        const std::string_view part = part_of(name);
        const auto [known, is_new] = expected.try_emplace(part);
        if (is_new) {
            known->second = extents_of(part, sizes);
        }
        if (!known->second.empty() && extents != known->second) {
            wrong.push_back(name + " " + shape_text(extents) + ", not " +
                            shape_text(known->second));
        }
    }
    return wrong;
}

}  // namespace shardweld::loaders
