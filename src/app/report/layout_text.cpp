#include "layout_text.hpp"

#include <utility>

#include "app/settings/option_value.hpp"
#include "core/text.hpp"

namespace shardweld::app {

namespace {

std::string dtype_text(const LayoutReport& layout) {
    const outputs::LayoutAgreement& found = layout.found;
    const bool is_float = !dtype_word(*found.own_dtype).empty();  // and no code
    const std::string option(is_float ? dtype_word(*found.their_dtype) : "");
    return "the types of " + counted(found.dtypes.size(), "tensor") +
           " are not the reference's: " + printable(found.dtypes.front()) + " is " +
           std::string(torch_name(*found.own_dtype)) + " here and " +
           std::string(torch_name(*found.their_dtype)) + " in " + printable(layout.reference) +
           (option.empty() ? "; types are the merge's own (--dtype, --quantize)"
                           : "; --dtype " + option + " writes such");
}

std::string shape_text(const LayoutReport& layout) {
    return "the shapes of " + counted(layout.found.shapes.size(), "tensor") +
           " are not the reference's, and no option changes that: " + listed(layout.found.shapes);
}

}  // namespace

std::string kept_text(const outputs::LayoutAgreement& found) {
    const std::size_t n_files = found.kept.size() + found.own.size();
    return "headers of the reference in " + std::to_string(found.kept.size()) + " of " +
           counted(n_files, "weight file");
}

std::vector<std::string> layout_texts(const LayoutReport& layout) {
    const outputs::LayoutAgreement& found = layout.found;
    std::string text = "laid out like " + printable(layout.reference) + ": " + kept_text(found);
    const std::vector<std::pair<std::string, const std::vector<std::string>*>> lists = {
        {"headers of their own: ", &found.own},
        {"tensors that it does not have: ", &found.extra},
        {"tensors that only it has: ", &found.lacking},
        {"its files of which nothing is left, and which are not written: ", &found.unwritten}};
    for (const auto& [what, names] : lists) {
        text += names->empty() ? "" : "; " + what + listed(*names);
    }
    std::vector<std::string> texts{std::move(text)};
    if (!found.dtypes.empty()) {
        texts.push_back(dtype_text(layout));
    }
    if (!found.shapes.empty()) {
        texts.push_back(shape_text(layout));
    }
    return texts;
}

}  // namespace shardweld::app
