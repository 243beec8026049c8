// The extension module shardweld._core: the library's calls with requests and results as JSON text,
// for the Python files beside it. It keeps to Python's stable interface of 3.8, so that one build
// serves all later versions; a binding library would ask for 3.12, or for a build per version.
#define Py_LIMITED_API 0x03080000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "shardweld/comm.hpp"
#include "shardweld/error.hpp"
#include "shardweld/examine.hpp"
#include "shardweld/merge.hpp"
#include "shardweld/open.hpp"

namespace {

using nlohmann::json;
using namespace shardweld;  // NOLINT(google-build-using-namespace): all of it is about that

constexpr const char* kCapsule = "shardweld.OpenModel";

/// Lets other Python threads run while it lives.
class Released {
  public:
    Released() : state_(PyEval_SaveThread()) {}
    ~Released() { PyEval_RestoreThread(state_); }
    Released(const Released&) = delete;
    Released& operator=(const Released&) = delete;
    Released(Released&&) = delete;
    Released& operator=(Released&&) = delete;

  private:
    PyThreadState* state_;
};

/// Holds the interpreter in a thread that it does not know, or has released it.
class Held {
  public:
    Held() : state_(PyGILState_Ensure()) {}
    ~Held() { PyGILState_Release(state_); }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    Held(Held&&) = delete;
    Held& operator=(Held&&) = delete;

  private:
    PyGILState_STATE state_;
};

/// Hands events to Python's functions; None: nobody. What such a function raises ends the run, and
/// is raised again behind it.
class PythonEvents final : public Events {
  public:
    PythonEvents(PyObject* on_message, PyObject* on_progress, std::stop_source& stop)
        : on_message_(on_message), on_progress_(on_progress), stop_(stop) {}

    void message(LogLevel level, const std::string& text) override {
        tell(on_message_, [&](PyObject* told) {
            return PyObject_CallFunction(told, "is", static_cast<int>(level), text.c_str());
        });
    }
    void progress(const PhaseProgress& state) override {
        tell(on_progress_, [&](PyObject* told) {
            return PyObject_CallFunction(told, "sLL", state.phase.c_str(),
                                         static_cast<long long>(state.done),
                                         static_cast<long long>(state.total));
        });
    }

    /// Whether one of the functions raised; the exception is then the interpreter's.
    bool raise() {
        if (kind_ == nullptr) {
            return false;
        }
        PyErr_Restore(kind_, value_, trace_);
        kind_ = value_ = trace_ = nullptr;
        return true;
    }

  private:
    void tell(PyObject* told, const std::function<PyObject*(PyObject*)>& call) {
        if (told == Py_None || kind_ != nullptr) {
            return;
        }
        const Held held;
        PyObject* const result = call(told);
        if (result == nullptr) {
            PyErr_Fetch(&kind_, &value_, &trace_);
            stop_.request_stop();
        }
        Py_XDECREF(result);
    }

    PyObject* on_message_;
    PyObject* on_progress_;
    std::stop_source& stop_;
    PyObject* kind_ = nullptr;
    PyObject* value_ = nullptr;
    PyObject* trace_ = nullptr;
};

PyObject* text_of(const json& value) {
    const std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
    return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
}

json fault_of(const Error& error) {
    return {{"code", static_cast<int>(error.code())},
            {"what", error.what()},
            {"where", error.context()},
            {"hint", error.hint()}};
}

/// What a call gives, or what ended it: {"error": ...}.
json outcome_of(const std::function<json()>& call) {
    try {
        return call();
    } catch (const Error& error) {
        return {{"error", fault_of(error)}};
    } catch (const std::bad_alloc&) {
        return {{"error", fault_of(Error(ErrorCode::memory, "there is not enough memory"))}};
    } catch (const std::exception& error) {
        return {{"error", fault_of(Error(ErrorCode::internal, error.what()))}};
    }
}

Request request_in(const json& text) {
    Request request;
    for (const std::string path : text.at("inputs")) {
        request.inputs.emplace_back(path);
    }
    request.options = text.at("options");
    request.also = text.value("also", std::vector<OptionTexts>());
    request.keeps_report = text.value("keeps_report", false);
    return request;
}

/// Runs `call` in a thread of its own, while this one looks for signals: Ctrl-C asks the run to
/// stop, and is raised when it has. nullptr with an exception set, or the outcome as text.
PyObject* run(PyObject* on_message, PyObject* on_progress,
              const std::function<json(Events&, std::stop_token)>& call) {
    using namespace std::chrono_literals;
    std::stop_source stop;
    PythonEvents events(on_message, on_progress, stop);
    bool is_interrupted = false;
    std::future<json> result = std::async(std::launch::async, [&] {
        return outcome_of([&] { return call(events, stop.get_token()); });
    });
    const auto is_ready = [&] {
        const Released released;
        return result.wait_for(50ms) == std::future_status::ready;
    };
    while (!is_ready()) {
        if (!is_interrupted && PyErr_CheckSignals() != 0) {
            is_interrupted = true;
            PyErr_Clear();
            stop.request_stop();
        }
    }
    const json outcome = result.get();
    if (events.raise()) {
        return nullptr;
    }
    if (is_interrupted) {
        PyErr_SetNone(PyExc_KeyboardInterrupt);
        return nullptr;
    }
    return text_of(outcome);
}

/// merge(request, on_message, on_progress)
PyObject* merge_py(PyObject*, PyObject* args) {
    const char* text = nullptr;
    PyObject* on_message = nullptr;
    PyObject* on_progress = nullptr;
    if (PyArg_ParseTuple(args, "sOO", &text, &on_message, &on_progress) == 0) {
        return nullptr;
    }
    return run(on_message, on_progress, [&](Events& events, std::stop_token token) {
        Request request = request_in(json::parse(text));
        request.stop = std::move(token);
        const MergeReport report = merge(serial(), request, events);
        json outputs = json::array();
        for (const WrittenOutput& one : report.outputs) {
            outputs.push_back({{"directory", one.directory.string()},
                               {"files", one.files},
                               {"tensors", one.tensors},
                               {"tensor_bytes", one.tensor_bytes},
                               {"root", one.root},
                               {"report", json::parse(one.json)}});
        }
        return json{{"outputs", std::move(outputs)}, {"why_stopped", report.why_stopped}};
    });
}

/// examine(command, request, on_message)
PyObject* examine_py(PyObject*, PyObject* args) {
    const char* command = nullptr;
    const char* text = nullptr;
    PyObject* on_message = nullptr;
    if (PyArg_ParseTuple(args, "ssO", &command, &text, &on_message) == 0) {
        return nullptr;
    }
    return run(on_message, Py_None, [&](Events& events, const std::stop_token&) {
        const Examination found = examine(serial(), command, request_in(json::parse(text)), events);
        return json{{"is_good", found.is_good},
                    {"why", found.why},
                    {"found", json::parse(found.json, nullptr, false)}};
    });
}

void close(PyObject* capsule) {
    delete static_cast<OpenModel*>(PyCapsule_GetPointer(capsule, kCapsule));
}

json description_of(const OpenModel& model) {
    json tensors = json::array();
    for (const TensorInfo& one : model.tensors()) {
        tensors.push_back(
            {{"name", one.name}, {"dtype", one.dtype}, {"shape", one.shape}, {"bytes", one.bytes}});
    }
    return {{"tensors", std::move(tensors)},
            {"config", json::parse(model.config_json(), nullptr, false)},
            {"report", json::parse(model.report_json())}};
}

/// open(request, on_message) -> (capsule or None, text)
PyObject* open_py(PyObject*, PyObject* args) {
    const char* text = nullptr;
    PyObject* on_message = nullptr;
    if (PyArg_ParseTuple(args, "sO", &text, &on_message) == 0) {
        return nullptr;
    }
    std::unique_ptr<OpenModel> model;
    PyObject* const outcome =
        run(on_message, Py_None, [&](Events& events, const std::stop_token& token) {
            Request request = request_in(json::parse(text));
            request.stop = token;
            model = std::make_unique<OpenModel>(request, events);
            return description_of(*model);
        });
    if (outcome == nullptr) {
        return nullptr;
    }
    if (!model) {
        return Py_BuildValue("(ON)", Py_None, outcome);
    }
    PyObject* const capsule = PyCapsule_New(model.get(), kCapsule, close);
    if (capsule == nullptr) {
        Py_DECREF(outcome);
        return nullptr;
    }
    (void)model.release();
    return Py_BuildValue("(NN)", capsule, outcome);
}

/// read(capsule, tensor, ranges, address, size): `ranges` is a flat tuple, begin and end of each
/// dimension in turn.
PyObject* read_py(PyObject*, PyObject* args) {
    PyObject* capsule = nullptr;
    PyObject* ranges = nullptr;
    unsigned long long at = 0;
    unsigned long long address = 0;
    unsigned long long size = 0;
    if (PyArg_ParseTuple(args, "OKOKK", &capsule, &at, &ranges, &address, &size) == 0) {
        return nullptr;
    }
    const auto* const model = static_cast<OpenModel*>(PyCapsule_GetPointer(capsule, kCapsule));
    if (model == nullptr) {
        return nullptr;
    }
    std::vector<IndexRange> box;
    for (Py_ssize_t i = 0; i + 1 < PyTuple_Size(ranges); i += 2) {
        box.push_back({PyLong_AsLongLong(PyTuple_GetItem(ranges, i)),
                       PyLong_AsLongLong(PyTuple_GetItem(ranges, i + 1))});
    }
    if (PyErr_Occurred() != nullptr) {
        return nullptr;
    }
    json outcome;
    {
        const Released released;
        outcome = outcome_of([&] {
            // The address of an array that the caller holds, of `size` bytes.
            // NOLINTNEXTLINE(performance-no-int-to-ptr)
            auto* const out = reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(address));
            model->read(at, box, {out, size});
            return json::object();
        });
    }
    if (outcome.empty()) {
        Py_RETURN_NONE;
    }
    return text_of(outcome);
}

// NOLINTBEGIN(*-non-const-global-variables,bugprone-reserved-identifier,*-identifier-naming):
// Python's interface
PyMethodDef methods[] = {{"merge", merge_py, METH_VARARGS, nullptr},
                         {"examine", examine_py, METH_VARARGS, nullptr},
                         {"open", open_py, METH_VARARGS, nullptr},
                         {"read", read_py, METH_VARARGS, nullptr},
                         {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "shardweld._core",
                          nullptr,
                          -1,
                          methods,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__core() {
    PyObject* const made = PyModule_Create(&definition);
    if (made != nullptr &&
        PyModule_AddStringConstant(made, "__version__", SHARDWELD_VERSION) != 0) {
        Py_DECREF(made);
        return nullptr;
    }
    return made;
}
// NOLINTEND(*-non-const-global-variables,bugprone-reserved-identifier,*-identifier-naming)
