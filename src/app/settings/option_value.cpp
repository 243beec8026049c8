#include "option_value.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <ctime>
#include <limits>

#include "core/text.hpp"
#include "plan/plan.hpp"
#include "reshape/destination.hpp"
#include "shardweld/error.hpp"

#include "typed_words.hpp"

namespace shardweld::app {

namespace {

constexpr std::string_view kModelForm = "hf";
constexpr Index kMostNumber = std::numeric_limits<int>::max();

constexpr Bytes kStripeUnit = Bytes{64} << 10U;    // lfs-setstripe(1): a multiple of 64 KiB,
constexpr Bytes kLargestStripe = Bytes{1} << 32U;  // less than 4 GiB
constexpr Index kMostTargets = 2000;               // of one file (lfs-setstripe(1))

[[noreturn]] void refuse_striping(const Given& given) {
    refuse(given, "is not COUNT or COUNT,SIZE",
           "give for example 8, all or 8,4MiB (COUNT up to 2000; SIZE "
           "a multiple of 64KiB below 4GiB)");
}

/// Types, and what --dtype calls them.
constexpr std::array<std::pair<std::string_view, DType>, 3> kTypes = {
    {{"bf16", DType::bf16}, {"fp16", DType::f16}, {"fp32", DType::f32}}};

std::optional<DType> dtype_named(std::string_view word) {
    auto* const found = find_item(kTypes, word, &std::pair<std::string_view, DType>::first);
    return found == nullptr ? std::nullopt : std::optional(found->second);
}

/// Whether the text is a form that --also takes; puts it into the request.
bool take_form(std::string_view text, JobOutput& also) {
    also.quantise = encoding_from(text);
    also.dtype = dtype_named(text);
    const bool is_of_checkpoint = reshape::is_form(text.substr(0, text.find(':')));
    also.form = is_of_checkpoint ? form_in({"also", std::string(text)}) : "";
    return also.quantise || also.dtype || is_of_checkpoint;
}

/// "DIR", "DIR:fp8-block", "DIR:bf16", "DIR:legacy:tp=2", "DIR:hf". Forms may have colons, and so
/// may directories behind which one stands.
JobOutput also_in(const Given& given) {
    const std::string_view text = given.text;
    JobOutput also{text};
    bool has_form = false;
    for (auto at = text.find(':'); at != std::string_view::npos && !has_form;
         at = text.find(':', at + 1)) {
        has_form = take_form(text.substr(at + 1), also);
        also.directory = has_form ? text.substr(0, at) : text;
    }
    if (also.directory.empty() || (!has_form && has_part(text, ':'))) {
        refuse(given, "is not DIR or DIR:FORM",
               "give as FORM bf16, fp16, fp32, an encoding of --quantize or a form of --to, for "
               "example OUT-FP8:fp8-block or CKPT:legacy:tp=2");
    }
    return also;
}

/// The number that a text begins with, else NaN, and what stands behind it.
std::pair<double, std::string_view> number_before(
    std::string_view text, std::chars_format format = std::chars_format::general) {
    double number = 0;
    const char* const end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, number, format);
    return {error == std::errc() ? number : std::numeric_limits<double>::quiet_NaN(), {at, end}};
}

}  // namespace

std::string_view dtype_word(DType dtype) {
    auto* const found = find_item(kTypes, dtype, &std::pair<std::string_view, DType>::second);
    return found == nullptr ? std::string_view() : found->first;
}

void refuse(const std::string& message, const std::string& hint) {
    throw Error(ErrorCode::usage, message, hint);
}
void refuse(const Given& given, const std::string& why, const std::string& hint) {
    refuse("--" + std::string(given.name) + " " + printable(given.text) + " " + why, hint);
}

void refuse_value(const Given& given, const std::vector<std::string>& words) {
    std::string choice = words.front();
    for (std::size_t i = 1; i < words.size(); ++i) {
        choice += (i + 1 == words.size() ? " or " : ", ") + words[i];
    }
    refuse("invalid value '" + printable(given.text) + "' for --" + std::string(given.name) +
               " (choose " + choice + ")",
           value_guess(given.name, given.text, words));
}

Bytes size_in(const Given& given) {
    const auto bytes = parse_size(given.text);
    if (!bytes || *bytes == 0) {
        refuse(given, "is not a size", "give for example 5GB, 512MiB or a number of bytes");
    }
    return *bytes;
}

Index number_in(const Given& given, Index least) {
    const auto number = parse_index(given.text);
    if (!number || *number < least || *number > kMostNumber) {
        refuse(given, "is not a number in its range",
               "give one from " + std::to_string(least) + " to " + std::to_string(kMostNumber));
    }
    return *number;
}

double real_in(const Given& given) {
    const auto [number, rest] = number_before(given.text);
    if (!std::isfinite(number) || !rest.empty() || number < 0) {
        refuse(given, "is not a number", "give one such as 16 or 1e-6");
    }
    return number;
}

double duration_in(const Given& given) {
    constexpr std::array<std::pair<std::string_view, double>, 5> kUnits = {
        {{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}}};
    const auto [number, rest] = number_before(given.text, std::chars_format::fixed);
    const auto* const unit =
        std::ranges::find(kUnits, rest, &std::pair<std::string_view, double>::first);
    if (!std::isfinite(number) || unit == kUnits.end() || number < 0) {
        refuse(given, "is not a time", "give for example 90s, 5m or 2h");
    }
    return number * unit->second;
}

std::optional<double> local_time_in(const std::string& text, const char* form) {
    std::tm time{};
    const char* const end = ::strptime(text.c_str(), form, &time);
    if (end == nullptr || *end != '\0') {
        return std::nullopt;
    }
    time.tm_isdst = -1;
    return static_cast<double>(std::mktime(&time));
}

double moment_in(const Given& given) {
    if (given.text.starts_with('+')) {
        return static_cast<double>(std::time(nullptr)) +
               duration_in({given.name, given.text.substr(1)});
    }
    if (const auto seconds = parse_index(given.text)) {
        return static_cast<double>(*seconds);
    }
    for (const char* const form : {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M"}) {
        if (const auto seconds = local_time_in(given.text, form)) {
            return *seconds;
        }
    }
    refuse(given, "is no point in time",
           "give for example +50m, 2026-11-22T03:10 or seconds since 1970");
}

std::vector<double> reals_in(const Given& given) {
    std::vector<double> numbers;
    for (const std::string_view text : split(given.text, ',')) {
        const auto [number, rest] = number_before(text);
        if (!std::isfinite(static_cast<float>(number)) || !rest.empty()) {
            refuse(given, "is no list of numbers", "give for example 0.2,0.8");
        }
        numbers.push_back(number);
    }
    return numbers;
}

std::string branch_in(const Given& given) {
    const auto is_plain = [](char one) {
        return std::isalnum(static_cast<unsigned char>(one)) != 0 ||
               std::string_view("-_./{}").find(one) != std::string_view::npos;
    };
    const std::string& text = given.text;
    if (!std::ranges::all_of(text, is_plain) || text.front() == '-' || text.front() == '/' ||
        text.ends_with('/') || text.ends_with(".lock") || has_part(text, "..")) {
        refuse(given, "is no name of a branch", "give for example step-100");
    }
    return text;
}

std::vector<std::string> names_in(const Given& given) {
    const auto names = split(given.text, ',');
    return {names.begin(), names.end()};
}

Words<const outputs::OutputFormat*> output_formats() {
    Words<const outputs::OutputFormat*> words;
    for (const outputs::OutputFormat* const format : outputs::all_formats()) {
        words.emplace_back(format->name(), format);
    }
    return words;
}

Words<std::string> backends() {
    static const std::vector<std::string> names = formats::backends();
    Words<std::string> words{{"auto", "auto"}};
    for (const std::string& name : names) {
        words.emplace_back(name, name);
    }
    return words;
}

DType dtype_in(const Given& given) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kOthers = {
        {{"bfloat16", "bf16"},
         {"float16", "fp16"},
         {"f16", "fp16"},
         {"half", "fp16"},
         {"float32", "fp32"},
         {"f32", "fp32"},
         {"float", "fp32"}}};
    constexpr std::array<std::string_view, 3> kQuantised = {"fp8", "float8", "mxfp"};
    constexpr std::string_view kTorch = "torch.";
    const std::string text = in_small_letters(given.text);
    std::string_view word = text;
    if (word.starts_with(kTorch)) {
        word.remove_prefix(kTorch.size());
    }
    const auto starts_word = [&](std::string_view name) { return word.starts_with(name); };
    if (std::ranges::any_of(kQuantised, starts_word)) {
        throw Error(ErrorCode::unsupported,
                    "--dtype " + printable(given.text) +
                        " would write floats of fewer bits without their scales",
                    "--quantize writes both, as fp8-block or in another of its encodings; stored "
                    "8-bit floats stay as they are");
    }
    for (const auto& [other, name] : kOthers) {
        word = word == other ? name : word;
    }
    if (const auto dtype = dtype_named(word)) {
        return *dtype;
    }
    refuse_value(given, {"bf16", "fp16", "fp32"});
}

std::vector<Index> extents_in(const Given& given) {
    std::vector<Index> extents;
    for (const std::string& text : names_in(given)) {
        const auto extent = parse_index(text);
        if (!extent || *extent < 1) {
            refuse(given, "is not a list of numbers", "give one such as 2,4");
        }
        extents.push_back(*extent);
    }
    return extents;
}

publish::Striping striping_in(const Given& given) {
    const auto parts = split(given.text, ',');
    const bool is_all = parts[0] == "all" || parts[0] == "-1";
    const auto count = is_all ? std::optional<Index>(-1) : parse_index(parts[0]);
    if (!count || *count == 0 || *count > kMostTargets || parts.size() > 2) {
        refuse_striping(given);
    }
    publish::Striping striping{*count, 0};
    if (parts.size() == 2) {
        const auto size = parse_size(parts[1]);
        if (!size || *size == 0 || *size % kStripeUnit != 0 || *size >= kLargestStripe) {
            refuse_striping(given);
        }
        striping.size = *size;
    }
    return striping;
}

Encoding encoding_in(const Given& given) {
    if (const auto encoding = encoding_from(given.text)) {
        return *encoding;
    }
    const std::string guess = value_guess(given.name, given.text, encoding_names());
    const std::string hint =
        guess.empty() ? "give for example fp8-block, w4a16 or gguf:q8_0" : guess;
    refuse("unknown encoding '" + printable(given.text) + "' for --" + std::string(given.name),
           hint + (hint.ends_with('?') ? " " : "; ") +
               "docs/using/quantising.md has a table of all, and so has shardweld help merge");
}

void set_also(const Given& given, Job& job) {
    for (const std::string_view text : split(given.text, kNextValue)) {
        job.outputs.push_back(also_in({given.name, std::string(text)}));
    }
}

std::string expression_in(const Given& given) {
    check_expression(given.text, "--" + std::string(given.name));
    return given.text;
}

double lora_alpha_in(const Given& given) {
    const double alpha = real_in(given);
    if (alpha == 0) {
        refuse(given, "would switch the adapter off", "give the alpha it was trained with");
    }
    return alpha;
}

double decay_in(const Given& given) {
    const double decay = real_in(given);
    if (decay == 0) {
        refuse(given, "would leave the last checkpoint alone", "give a number such as 0.9");
    }
    return decay;
}

std::string form_in(const Given& given) {
    return given.text == kModelForm ? "" : given.text;
}

std::optional<fs::path> report_in(const Given& given) {
    return given.text == "none" ? std::nullopt : std::optional<fs::path>(given.text);
}

Bytes memory_limit_in(const Given& given) {
    const Bytes limit = size_in(given);
    if (limit < 2 * plan::kLeastMemory) {
        refuse(given, "is too small", "give at least 1MiB a rank");
    }
    return limit;
}

void ignored(const Given& /*given*/, Job& /*job*/) {}

void ignored_with_note(const Given& given, Job& job) {
    job.notes.push_back("--" + std::string(given.name) +
                        " has no effect: no model is built and no code is run");
}

void set_older_config(const Given& given, Job& job) {
    job.model.hf_config = given.text;
    job.notes.emplace_back("--hf_model_path means --hf_config");
}

void set_verl(const Given& /*given*/, Job& job) {
    job.run.is_verl = true;
    job.run.has_card = false;
    job.outputs.front().dtype = job.outputs.front().dtype.value_or(DType::bf16);
}

}  // namespace shardweld::app
