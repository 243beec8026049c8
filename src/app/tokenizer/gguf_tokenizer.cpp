#include "gguf_tokenizer.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <utility>

#include "core/text.hpp"
#include "io/whole_file.hpp"
#include "models/config.hpp"

#include "tokenizer_json.hpp"

namespace shardweld::app {

namespace {

/// How texts are split into words, and what llama.cpp calls that (llama-vocab.cpp).
struct PreTokenizer {
    const char* name;
    std::vector<std::string> splits;
};

const std::vector<PreTokenizer>& pre_tokenizers() {
    static const std::string contractions = R"((?i:'s|'t|'re|'ve|'m|'ll|'d))";
    static const std::string ends = R"([\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
    static const std::string cased =
        R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)";
    static const std::string capitals =
        R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)";
    static const std::string others = R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
    static const std::string letters = R"(|[^\r\n\p{L}\p{N}]?\p{L}+|)";
    static const std::vector<PreTokenizer> all = {
        {"llama-bpe", {contractions + letters + R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+)" + ends}},
        {"qwen2", {contractions + letters + R"(\p{N}| ?[^\s\p{L}\p{N}]+)" + ends}},
        {"qwen35",
         {contractions + R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+)" +
          ends}},
        {"gpt-2", {"gpt2"}},
        {"smollm", {R"(\p{N})", "gpt2"}},
        {"tekken", {cased + "|" + capitals + R"(|\p{N}|)" + others}},
        {"gpt-4o",
         {cased + contractions + "?|" + capitals + contractions + R"(?|\p{N}{1,3}|)" + others}},
        {"deepseek-v3",
         {R"(\p{N}{1,3})", "[一-龥぀-ゟ゠-ヿ]+",
          R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
          R"( ?[\p{P}\p{S}]+)" +
              ends}},
        {"deepseek-coder",
         {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", "[一-龥ࠀ-一가-퟿]+", R"(\p{N})"}},
    };
    return all;
}

/// DeepSeek V2's list of letters is long, and nobody else's.
bool is_deepseek_v2(const SplitSteps& splits) {
    return splits.size() > 1 && splits.front() == R"([\r\n])" &&
           splits[1].starts_with(R"(\s?[A-Za-zµÀ-Ö)");
}

/// The value of tokenizer.ggml.pre; nullopt for a way that this table does not have.
std::optional<std::string> pre_tokenizer_of(const SplitSteps& splits) {
    if (is_deepseek_v2(splits)) {
        return "deepseek-llm";
    }
    const auto& all = pre_tokenizers();
    auto* const found = find_item(all, splits, &PreTokenizer::splits);
    return found == nullptr ? std::nullopt : std::optional<std::string>(found->name);
}

constexpr Bytes kLargestFile = Bytes{256} << 20U;
constexpr Index kMostVocabulary = 1 << 21;  // ten times what vocabularies have
constexpr const char* kSpacePiece = "\u2581";
constexpr float kUnused = -10000;
constexpr float kAdded = -1000;

// Numbers of llama.cpp's token types.
constexpr int kNormal = 1;
constexpr int kControl = 3;
constexpr int kUserDefined = 4;
constexpr int kUnusedType = 5;
constexpr int kByte = 6;

std::optional<std::string> text_of(const std::vector<publish::Asset>& assets,
                                   std::string_view name) {
    auto* const found = find_item(assets, name, &publish::Asset::name);
    return found == nullptr ? std::nullopt : found->read_text(kLargestFile);
}

/// additional_chat_templates/NAME.jinja, by name.
std::map<std::string, std::string> named_templates(const std::vector<publish::Asset>& assets) {
    constexpr std::string_view kNamed = "additional_chat_templates/";
    constexpr std::string_view kJinja = ".jinja";
    std::map<std::string, std::string> named;
    for (const publish::Asset& asset : assets) {
        const auto text = asset.name.starts_with(kNamed) && asset.name.ends_with(kJinja)
                              ? text_of(assets, asset.name)
                              : std::nullopt;
        if (text) {
            const std::string name = asset.name.substr(kNamed.size());
            named[name.substr(0, name.size() - kJinja.size())] = *text;
        }
    }
    return named;
}

/// What llama.cpp takes as a control token although it is not marked as one.
bool looks_special(const std::string& text) {
    return text == "<pad>" || text == "<mask>" || text == "<2mass>" || text == "[@BOS@]" ||
           (text.starts_with("<|") && text.ends_with("|>")) ||
           (text.starts_with("<｜") && text.ends_with("｜>")) ||
           (text.starts_with("<unused") && text.ends_with(">"));
}

bool is_byte_token(const std::string& text) {
    return text.size() == 6 && text.starts_with("<0x") && text.ends_with(">");
}

class Keys {
  public:
    Keys(const std::vector<publish::Asset>& assets, const std::string& config_text)
        : assets_(assets),
          config_(models::Config::parse(config_text, "config.json")),
          settings_(parse_tokenizer_settings(
              [&](const std::string& name) { return text_of(assets, name); },
              named_templates(assets))) {}

    GgufTokenizer run() {
        const auto text = text_of(assets_, "tokenizer.json");
        json_ = text ? parse_tokenizer_json(*text) : std::nullopt;
        const auto model = text_of(assets_, "tokenizer.model");
        const auto pieces = model ? parse_pieces(*model) : std::nullopt;
        const bool is_bpe = json_ && json_->model == "BPE" && !json_->vocabulary.empty();
        if (is_bpe && json_->has_bytes && !json_->falls_back) {
            take_bytes();
        } else if (pieces) {
            take_pieces(*pieces);
        } else if (is_bpe && json_->falls_back) {
            take_fallback();
        } else {
            warn(
                "there is no tokenizer that can be written to GGUF (tokenizer.json with BPE, or "
                "SentencePiece's tokenizer.model): llama.cpp will not load the file as it is");
            return std::move(out_);
        }
        add_special();
        add_templates();
        return std::move(out_);
    }

  private:
    void warn(std::string text) { out_.warnings.push_back(std::move(text)); }
    void add(MetadataField field) { out_.keys.push_back(std::move(field)); }

    void set(Index id, GgufToken token) {
        if (id < std::ssize(tokens_)) {
            tokens_[as_size(id)] = std::move(token);
        } else {
            ++n_beyond_;
        }
    }

    /// Rows of the embedding without a token.
    void fill(Index n_tokens) {
        const Index n =
            std::clamp<Index>(config_.integer("vocab_size").value_or(n_tokens), 0, kMostVocabulary);
        for (Index id = 0; id < n; ++id) {
            tokens_.push_back({"[PAD" + std::to_string(id) + "]", kUnused, kUnusedType});
        }
    }

    /// Tokens with words of their own, wherever they are listed.
    void set_added() {
        std::vector<AddedToken> added = json_ ? json_->added : std::vector<AddedToken>();
        append_all(added, settings_.added);
        for (AddedToken& token : added) {
            const bool is_control = token.is_special || looks_special(token.text);
            set(token.id, {is_control ? token.text : with_spaces(token.text), kAdded,
                           is_control ? kControl : kUserDefined});
            numbers_.emplace(std::move(token.text), token.id);
        }
    }

    static std::string with_spaces(std::string text) {
        for (auto at = text.find(kSpacePiece); at != std::string::npos;
             at = text.find(kSpacePiece)) {
            text.replace(at, std::string_view(kSpacePiece).size(), " ");
        }
        return text;
    }

    /// Byte-level BPE: GPT-2, Llama 3, Qwen, DeepSeek.
    void take_bytes() {
        fill(json_->vocabulary.rbegin()->first + 1);
        for (const auto& [id, text] : json_->vocabulary) {
            set(id, {text, 0, kNormal});
        }
        set_added();
        const auto pre = pre_tokenizer_of(json_->splits);
        if (!pre) {
            warn(
                "llama.cpp has no name for the way in which tokenizer.json splits words: "
                "tokenizer.ggml.pre is \"default\", and some texts will get other tokens");
        }
        add_tokens("gpt2", pre.value_or("default"), false);
        add_texts("tokenizer.ggml.merges", json_->merges);
    }

    void take_pieces(const std::vector<GgufToken>& pieces) {
        fill(std::ssize(pieces));
        for (const std::size_t id : indices(pieces)) {
            const GgufToken& piece = pieces[id];
            set(static_cast<Index>(id),
                {piece.text, piece.score, piece.type == kUserDefined ? kNormal : piece.type});
        }
        set_added();
        add_space_prefix();
        add_tokens("llama", "default", true);
    }

    /// SentencePiece's BPE as tokenizer.json has it: its pieces merge in the order of their scores.
    void take_fallback() {
        fill(json_->vocabulary.rbegin()->first + 1);
        std::map<std::string, float> scores;
        for (const std::size_t i : indices(json_->merges)) {
            std::string piece = json_->merges[i];
            if (const auto at = piece.find(' '); at != std::string::npos) {
                piece.erase(at, 1);
            }
            scores.emplace(std::move(piece), -static_cast<float>(i + 1));
        }
        for (const auto& [id, text] : json_->vocabulary) {
            auto* const score = find_value(scores, text);
            set(id, {text, score == nullptr ? 0 : *score, is_byte_token(text) ? kByte : kNormal});
        }
        set_added();
        add_space_prefix();
        add_tokens("llama", "default", true);
    }

    /// Before the first word. SentencePiece's own files do not tell.
    void add_space_prefix() {
        const bool by_file = !json_ || json_->prepends_space;
        add(MetadataField::boolean("tokenizer.ggml.add_space_prefix",
                                   settings_.flag("add_prefix_space").value_or(by_file)));
    }

    void add_tokens(const std::string& model, const std::string& pre, bool has_scores) {
        using Type = MetadataField::Type;
        if (n_beyond_ > 0) {
            warn(counted(n_beyond_, "token") +
                 " of the tokenizer are left out: config.json's "
                 "vocab_size is " +
                 std::to_string(tokens_.size()));
        }
        MetadataField texts{"tokenizer.ggml.tokens", Type::text, true};
        MetadataField scores{"tokenizer.ggml.scores", Type::f32, true};
        MetadataField types{"tokenizer.ggml.token_type", Type::i32, true};
        for (GgufToken& token : tokens_) {
            texts.texts.push_back(std::move(token.text));
            scores.reals.push_back(token.score);
            types.integers.push_back(token.type);
        }
        add(MetadataField::text("tokenizer.ggml.model", model));
        add(MetadataField::text("tokenizer.ggml.pre", pre));
        add(std::move(texts));
        if (has_scores) {
            add(std::move(scores));
        }
        add(std::move(types));
    }

    void add_texts(const std::string& key, std::vector<std::string> texts) {
        if (!texts.empty()) {
            add({key, MetadataField::Type::text, true, {}, {}, std::move(texts)});
        }
    }

    /// By its text in tokenizer_config.json, else by its number in config.json.
    [[nodiscard]] std::optional<Index> special(const std::string& kind) const {
        auto* const named = find_value(numbers_, settings_.token(kind + "_token"));
        const auto id =
            named != nullptr ? std::optional(*named) : config_.integer(kind + "_token_id");
        return id && *id >= 0 && *id < std::ssize(tokens_) ? id : std::nullopt;
    }

    void add_special() {
        constexpr std::array<std::pair<const char*, const char*>, 6> kSpecialTokens = {
            {{"bos", "bos"},
             {"eos", "eos"},
             {"unk", "unknown"},
             {"sep", "seperator"},  // llama.cpp's spelling
             {"pad", "padding"},
             {"mask", "mask"}}};
        for (const auto& [kind, name] : kSpecialTokens) {
            if (const auto id = special(kind)) {
                add(MetadataField::u32(std::string("tokenizer.ggml.") + name + "_token_id", *id));
            }
        }
        for (const bool is_first : {true, false}) {
            add_whether_added(is_first ? "bos" : "eos", !json_     ? ""
                                                        : is_first ? json_->first
                                                                   : json_->last);
        }
    }

    /// Whether texts get a special token: what tokenizer_config.json says, else by the template
    /// that tokenizer.json fills in.
    void add_whether_added(const std::string& kind, const std::string& in_template) {
        const std::string field = "add_" + kind + "_token";
        const auto stated = settings_.flag(field);
        const std::string token = settings_.token(kind + "_token");
        if (stated || !in_template.empty()) {
            add(MetadataField::boolean("tokenizer.ggml." + field,
                                       stated.value_or(token.empty() || in_template == token)));
        }
    }

    /// The one without a name comes last.
    void add_templates() {
        const std::string key = "tokenizer.chat_template";
        std::vector<std::string> names;
        for (const auto& [name, text] : settings_.templates) {
            if (!name.empty()) {
                names.push_back(name);
                add(MetadataField::text(key + "." + name, text));
            }
        }
        add_texts(key + "s", names);
        if (auto* const one = find_value(settings_.templates, "")) {
            add(MetadataField::text(key, *one));
        }
    }

    const std::vector<publish::Asset>& assets_;
    models::Config config_;
    TokenizerSettings settings_;
    std::optional<TokenizerJson> json_;
    std::vector<GgufToken> tokens_;
    std::map<std::string, Index> numbers_;  ///< of added tokens
    std::size_t n_beyond_ = 0;
    GgufTokenizer out_;
};

enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

struct ProtoField {
    std::uint64_t number = 0;
    Wire wire = Wire::varint;
    std::uint64_t value = 0;  ///< of numbers
    std::string_view bytes;
};

/// The fields of a message, one after another; stops at the first that is cut off or unknown.
class ProtoReader {
  public:
    explicit ProtoReader(std::string_view text) : rest_(text) {}

    [[nodiscard]] bool has_failed() const { return has_failed_; }

    bool next(ProtoField& field) {
        if (rest_.empty() || has_failed_) {
            return false;
        }
        const std::uint64_t tag = varint();
        field = {tag >> 3U, static_cast<Wire>(tag & 7U), 0, {}};
        switch (field.wire) {
            case Wire::varint:
                field.value = varint();
                break;
            case Wire::fixed64:
                field.bytes = take_bytes(8);
                break;
            case Wire::fixed32:
                field.bytes = take_bytes(4);
                break;
            case Wire::bytes:
                field.bytes = take_bytes(varint());
                break;
            default:
                has_failed_ = true;
        }
        return !has_failed_;
    }

  private:
    std::uint64_t varint() {
        std::uint64_t value = 0;
        for (unsigned shift = 0; shift < 64; shift += 7) {
            if (rest_.empty()) {
                break;
            }
            const auto byte = static_cast<unsigned char>(rest_.front());
            rest_.remove_prefix(1);
            value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
            if (byte < 0x80U) {
                return value;
            }
        }
        has_failed_ = true;
        return 0;
    }

    std::string_view take_bytes(std::uint64_t size) {
        if (size > rest_.size()) {
            has_failed_ = true;
            return {};
        }
        const auto bytes = rest_.substr(0, as_size(size));
        rest_.remove_prefix(bytes.size());
        return bytes;
    }

    std::string_view rest_;
    bool has_failed_ = false;
};

std::optional<GgufToken> piece_in(std::string_view text) {
    GgufToken piece;
    ProtoReader reader(text);
    for (ProtoField field; reader.next(field);) {
        if (field.number == 1 && field.wire == Wire::bytes) {
            piece.text = field.bytes;
        } else if (field.number == 2 && field.wire == Wire::fixed32) {
            std::memcpy(&piece.score, field.bytes.data(), sizeof(piece.score));
        } else if (field.number == 3 && field.wire == Wire::varint && field.value <= 6) {
            piece.type = static_cast<int>(field.value);
        }
    }
    return reader.has_failed() ? std::nullopt : std::optional(piece);
}

}  // namespace

GgufTokenizer gguf_tokenizer(const std::vector<publish::Asset>& assets,
                             const std::string& config_text) {
    return Keys(assets, config_text).run();
}

std::optional<std::vector<GgufToken>> parse_pieces(std::string_view text) {
    std::vector<GgufToken> pieces;
    ProtoReader reader(text);
    for (ProtoField field; reader.next(field);) {
        if (field.number != 1 || field.wire != Wire::bytes) {
            continue;
        }
        auto piece = piece_in(field.bytes);
        if (!piece) {
            return std::nullopt;
        }
        pieces.push_back(std::move(*piece));
    }
    return reader.has_failed() || pieces.empty() ? std::nullopt : std::optional(std::move(pieces));
}

}  // namespace shardweld::app
