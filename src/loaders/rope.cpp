#include "rope.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "core/text.hpp"

#include "rule.hpp"

namespace shardweld::loaders {

namespace {

using nlohmann::json;

/// A form, what it needs, and who computes it. What lies beside it in config.json may be taken for
/// original_max_position_embeddings.
struct RopeForm {
    std::string_view type;
    unsigned loaders;
    std::vector<const char*> needed;
};

constexpr unsigned kVllm = bit(Loader::vllm);
constexpr unsigned kSglang = bit(Loader::sglang);

const std::vector<RopeForm>& rope_forms() {
    static const std::vector<RopeForm> forms = {
        {"default", kHub, {}},
        {"axial", kHub, {}},
        {"linear", kHub, {"factor"}},
        {"dynamic", kHub, {"factor"}},
        {"yarn", kHub, {"factor"}},
        {"longrope", kHub, {"short_factor", "long_factor"}},
        {"su", kHub, {"short_factor", "long_factor"}},
        {"llama3", kHub, {"factor", "low_freq_factor", "high_freq_factor"}},
        {"proportional", kHub, {}},
        {"mrope", kHub, {"mrope_section"}},
        {"ntk", kVllm, {"factor"}},
        // Models with code of their own compute it (Sarvam).
        {"deepseek_yarn", kHub, {"factor"}},
        {"deepseek_llama_scaling", kVllm, {"factor"}},
        {"bailing_mrope", kVllm, {"mrope_section"}},
        {"mllama4", kVllm, {}},
        {"openpangu", kVllm, {}},
        {"telechat3-yarn", kVllm, {"factor"}},
    };
    return forms;
}

/// Lists are of factors for each pair of dims, all else numbers.
bool has_value(const json& rope, const char* key) {
    const json value = value_in(rope, key);
    const bool is_list = std::string_view(key).ends_with("_section") ||
                         std::string_view(key).starts_with("short_") ||
                         std::string_view(key).starts_with("long_");
    return is_list ? value.is_array() && !value.empty()
                   : value.is_number() && value.get<double>() > 0;
}

/// Older names of forms, which transformers takes in some families only.
bool is_taken_in(std::string_view type, std::string_view family) {
    return type == "su"      ? family.starts_with("phi")
           : type == "mrope" ? family.find("vl") != std::string_view::npos ||
                                   family.find("omni") != std::string_view::npos
                             : true;
}

class RopeCheck {
  public:
    RopeCheck(Loader loader, std::string family, std::vector<RopeFault>& out)
        : loader_(loader), family_(std::move(family)), out_(out) {}

    /// All objects of the configuration, `above` being the path to `object`.
    void look_into(const json& object, const std::string& above) {
        for (const auto& [key, value] : object.items()) {
            if (key == "rope_parameters" || key == "rope_scaling") {
                look_at_field(value, above + key, object);
            } else if (value.is_object()) {
                look_into(value, above + key + ".");
            }
        }
    }

  private:
    /// One for the model, or one for each kind of layer.
    void look_at_field(const json& value, const std::string& path, const json& around) {
        if (value.is_null()) {
            return;
        }
        if (!value.is_object()) {
            add(path + " is no object", "write null, or rope_type and what it needs");
            return;
        }
        const bool is_nested = std::ranges::any_of(
            value.items(), [](const auto& entry) { return entry.value().is_object(); });
        if (!is_nested) {
            look_at(value, path, around);
            return;
        }
        for (const auto& [key, inner] : value.items()) {
            if (inner.is_object()) {
                look_at(inner, path + "." + key, around);
            }
        }
    }

    void look_at(const json& rope, const std::string& path, const json& around) {
        const json stated = rope.contains("rope_type") ? rope["rope_type"] : value_in(rope, "type");
        const json theta = value_in(rope, "rope_theta");
        if (!theta.is_null() && !theta.is_number()) {
            add(path + " has rope_theta " + theta.dump() + ", which is no number",
                "take it from the model that was trained");
        }
        if (stated.is_null()) {
            if (rope.contains("rope_type") && loader_ == Loader::transformers) {
                add(path + " has rope_type null", "remove it, or say which form it is");
            } else if (rope.contains("factor")) {
                add(path + " has a factor, but no rope_type",
                    "say which form it is: linear, yarn, ...");
            }
            return;
        }
        const std::string type = stated.is_string() ? stated.get<std::string>() : stated.dump();
        look_for_conflict(rope, type, path);
        const auto form = std::ranges::find(rope_forms(), type, &RopeForm::type);
        const bool is_taken = loader_ != Loader::transformers || is_taken_in(type, family_);
        if (form == rope_forms().end() || (form->loaders & bit(loader_)) == 0 || !is_taken) {
            add(path + " has rope_type " + printable(type) + ", which " +
                    std::string(name_of(loader_)) + " does not compute",
                "correct it: default, linear, dynamic, yarn, longrope or llama3");
            return;
        }
        for (const char* key : form->needed) {
            if (!has_value(rope, key) && !(type == "dynamic" && is_by_alpha(rope))) {
                add(path + " (" + type + ") has no usable " + key,
                    "take it from the model that was trained");
            }
        }
        look_at_lists(rope, type, path, around);
    }

    [[nodiscard]] bool is_by_alpha(const json& rope) const {
        return loader_ != Loader::transformers && value_in(rope, "alpha").is_number();
    }

    void look_for_conflict(const json& rope, const std::string& type, const std::string& path) {
        const json older = value_in(rope, "type");
        const bool is_same = !older.is_string() || older == type ||
                             (older == "su" && type == "longrope") ||
                             (older == "mrope" && type == "default");
        if (!is_same && loader_ != Loader::transformers) {
            add(path + " has rope_type " + printable(type) + " and type " +
                    printable(older.get<std::string>()),
                "remove the one that is wrong");
        }
    }

    /// A factor for each pair of the dims that turn.
    void look_at_lists(const json& rope, const std::string& type, const std::string& path,
                       const json& around) {
        const auto pairs =
            type == "longrope" || type == "su" ? pairs_of(rope, around) : std::nullopt;
        for (const char* key : {"short_factor", "long_factor"}) {
            const json list = value_in(rope, key);
            if (pairs && list.is_array() && list.size() != *pairs) {
                add(path + "." + key + " has " + std::to_string(list.size()) + " factors for " +
                        std::to_string(*pairs) + " pairs of dims",
                    "take it from the model that was trained");
            }
        }
    }

    static std::optional<std::size_t> pairs_of(const json& rope, const json& around) {
        const json head = value_in(around, "head_dim");
        const json hidden = value_in(around, "hidden_size");
        const json heads = value_in(around, "num_attention_heads");
        double dims = 0;
        if (head.is_number_integer()) {
            dims = head.get<double>();
        } else if (hidden.is_number_integer() && heads.is_number_integer() &&
                   heads.get<Index>() > 0) {
            dims = static_cast<double>(hidden.get<Index>() / heads.get<Index>());
        }
        for (const json& part :
             {value_in(around, "partial_rotary_factor"), value_in(rope, "partial_rotary_factor")}) {
            if (part.is_number()) {
                dims *= part.get<double>();
                break;
            }
        }
        return dims >= 2 && dims < 1e6 ? std::optional(static_cast<std::size_t>(dims) / 2)
                                       : std::nullopt;
    }

    void add(const std::string& text, const std::string& hint) {
        out_.push_back({"config.json: " + text, hint});
    }

    Loader loader_;
    std::string family_;  ///< model_type
    std::vector<RopeFault>& out_;
};

}  // namespace

std::vector<RopeFault> rope_faults(const nlohmann::json& config, Loader loader) {
    std::vector<RopeFault> faults;
    const json type = value_in(config, "model_type");
    RopeCheck(loader, type.is_string() ? type.get<std::string>() : "", faults)
        .look_into(config, "");
    return faults;
}

}  // namespace shardweld::loaders
