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

Extent either(Extent first, Extent second) {
    return first ? first : second;
}

/// What metadata says of a model's sizes.
struct GgufSizes {
    const GgufNumber& number;
    Extent heads = number("attention.head_count");
    Extent width = number("embedding_length");
    Extent head = either(number("attention.key_length"),
                         width&& heads&&* heads > 0 ? Extent(*width / *heads) : std::nullopt);
    Extent value_head = either(number("attention.value_length"), head);
    Extent key_heads = either(number("attention.head_count_kv"), heads);
    Extent rank = number("attention.kv_lora_rank");  ///< of latent attention
    Extent turned = number("rope.dimension_count");
    Extent latent_key = number("attention.key_length_mla");
    Extent expert = number("expert_feed_forward_length");

    /// The extent that has this name in the table below.
    [[nodiscard]] Extent of(std::string_view name) const;
};

/// Extents that are no numbers of the metadata.
struct DerivedSize {
    std::string_view name;
    Extent (*of)(const GgufSizes& sizes);
};
constexpr std::array<DerivedSize, 10> kDerived = {{
    {"head", [](const GgufSizes& s) { return s.head; }},
    {"queries", [](const GgufSizes& s) { return product(s.heads, s.head); }},
    {"keys", [](const GgufSizes& s) { return product(s.key_heads, s.head); }},
    {"values", [](const GgufSizes& s) { return product(s.key_heads, s.value_head); }},
    {"outputs",
     [](const GgufSizes& s) {
         return product(s.heads, s.rank ? s.number("attention.value_length_mla") : s.value_head);
     }},
    {"mla_queries", [](const GgufSizes& s) { return product(s.heads, s.latent_key); }},
    {"mla_keys",
     [](const GgufSizes& s) {
         return s.turned && s.rank ? Extent(*s.rank + *s.turned) : std::nullopt;
     }},
    {"mla_part",
     [](const GgufSizes& s) {
         return s.turned && s.latent_key ? Extent(*s.latent_key - *s.turned) : std::nullopt;
     }},
    {"expert",
     [](const GgufSizes& s) { return either(s.expert, s.number("feed_forward_length")); }},
    {"shared",
     [](const GgufSizes& s) {
         const Extent own = s.number("expert_shared_feed_forward_length");
         return own ? own : product(s.expert, s.number("expert_shared_count"));
     }},
}};

Extent GgufSizes::of(std::string_view name) const {
    const auto* const known = std::ranges::find(kDerived, name, &DerivedSize::name);
    return known == kDerived.end() ? number(std::string(name)) : known->of(*this);
}

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
        if (known.name != part || (known.in == In::plain && sizes.rank) ||
            (known.in == In::latent && !sizes.rank)) {
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
    const GgufSizes sizes{number};
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
