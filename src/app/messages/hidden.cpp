#include "hidden.hpp"

#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/redact.hpp"

namespace shardweld::app {

nlohmann::ordered_json hidden(nlohmann::ordered_json json) {
    if (json.is_string()) {
        return without_secrets(json.get_ref<const std::string&>());
    }
    for (nlohmann::ordered_json& one : json) {
        if (one.is_string() || one.is_structured()) {
            one = hidden(std::move(one));
        }
    }
    return json;
}

}  // namespace shardweld::app
