// A number, a flag or a word, whatever a pickle keeps it in: Python's own, numpy's, a tensor of one
// element, a node of OmegaConf.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "formats/containers/torch_file.hpp"

namespace shardweld::formats {

/// A word that spells a flag, a real number or nothing means that: "True" is "true", "4.0" is "4",
/// "None" and "" are nullopt. Others as they are, without blanks around them; nullopt for texts
/// that no hyper-parameter has.
std::optional<std::string> plain_word(std::string_view text);

/// A real number in its shortest decimal.
std::string real_text(double value);

/// Flags as "true" and "false", numbers in their shortest decimal, words as plain_word has them;
/// nullopt for everything else, and for tensors, whose elements lie outside of the pickle.
std::optional<std::string> scalar_text(const PickleValue& value);

/// The element of a tensor that has one; nullopt for others. Error(io) where it cannot be read.
std::optional<std::string> text_of_tensor(const StoredTensor& tensor, const io::InputFile& input);

/// Whether it is a text, bytes, or what numpy keeps these in.
bool is_text(const PickleValue& value);

/// What OmegaConf's nodes hold, also those of dictionaries and lists; other values as they are.
const PickleValue& unwrapped(const PickleValue& value);

/// Reads the values of one torch file, whose tensors lie outside of the pickle.
class ScalarReader {
  public:
    ScalarReader(const TorchFile& file, const io::InputFile& input)
        : file_(&file), input_(&input) {}

    /// scalar_text, also of a tensor of one element. Error(io) where that cannot be read.
    [[nodiscard]] std::optional<std::string> text_of(const PickleValue& value) const;
    /// The whole number that a value is; nullopt where it is absent or something else.
    [[nodiscard]] std::optional<Index> index_of(const PickleValue* value) const;

  private:
    const TorchFile* file_;
    const io::InputFile* input_;
};

}  // namespace shardweld::formats
