#include "completion.hpp"

#include "option_value.hpp"

namespace shardweld::app {

std::string completion_for(std::string_view shell) {
    const Words<std::string (*)()> shells = {
        {"bash", bash_completion}, {"zsh", zsh_completion}, {"fish", fish_completion}};
    return word_in({"completion", std::string(shell)}, shells)();
}

}  // namespace shardweld::app
