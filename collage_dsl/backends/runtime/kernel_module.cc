// Kernels that libraries run: one module class for all libraries.
//
// A module carries kernels: for each its symbol, the name of an engine, the engine's payload (say,
// a model) and constants. It finds the engine as the global function `collage.engine.<name>`, and
// calls that as (symbol, payload, constants) -> function; the function is what runs the kernel,
// with the inputs and then the outputs as tensors (`call_dps_packed`).
//
// `collage.kernel.join.v2` makes one module of several. It has constants that are equal once, in
// memory and in its bytes.
//
// This file is linked into every exported library, so that a process which has only TVM can load
// it. `collage.kernel.code.v2` makes a module that has TVM's `export_library` do so. Of several
// copies in a process the first one loaded serves all modules.

#include <dlfcn.h>
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/string.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "stay_loaded.h"

namespace {

using namespace tvm::ffi;

// The number is that of the byte format below: another format is another kind, so that libraries
// of different age can live in one process.
constexpr const char* kKind = "collage.kernel.v2";
constexpr const char* kLoader = "ffi.Module.load_from_bytes.collage.kernel.v2";
constexpr const char* kCreate = "collage.kernel.v2";
constexpr const char* kCode = "collage.kernel.code.v2";
constexpr const char* kJoin = "collage.kernel.join.v2";
constexpr const char* kEngines = "collage_dsl.backends.engines";
// What malloc promises, hence what the start of a large byte string has.
constexpr size_t kAlignment = 16;

using Constants = Map<String, Tensor>;

// ---- Engines ----

// A function of the Python interpreter in this process, or null where there is none.
template <typename Signature>
Signature* Python(const char* name) {
  return reinterpret_cast<Signature*>(dlsym(RTLD_DEFAULT, name));
}

// The text of the Python exception that is set, which is cleared.
std::string TakePythonError() {
  auto fetch = Python<void(void**, void**, void**)>("PyErr_Fetch");
  auto str = Python<void*(void*)>("PyObject_Str");
  auto utf8 = Python<const char*(void*)>("PyUnicode_AsUTF8");
  auto clear = Python<void()>("PyErr_Clear");
  auto release = Python<void(void*)>("Py_DecRef");
  void *type = nullptr, *value = nullptr, *traceback = nullptr;
  fetch(&type, &value, &traceback);
  void* text = value != nullptr ? str(value) : nullptr;
  const char* chars = text != nullptr ? utf8(text) : nullptr;
  std::string message = chars != nullptr ? chars : "unknown error";
  clear();
  for (void* object : {text, type, value, traceback}) release(object);
  return message;
}

// Imports the Python module that registers the engines. Returns why that failed, or "".
std::string ImportEngines() {
  auto initialized = Python<int()>("Py_IsInitialized");
  if (initialized == nullptr || !initialized()) return "this process does not run Python";
  auto import = Python<void*(const char*)>("PyImport_ImportModule");
  int state = Python<int()>("PyGILState_Ensure")();
  void* module = import(kEngines);
  std::string reason = module == nullptr ? TakePythonError() : "";
  Python<void(void*)>("Py_DecRef")(module);
  Python<void(int)>("PyGILState_Release")(state);
  return reason;
}

Function FindEngine(const String& engine, const String& symbol) {
  std::string name = std::string("collage.engine.") + engine.c_str();
  if (auto found = Function::GetGlobal(name)) return *found;
  std::string reason = ImportEngines();
  if (auto found = Function::GetGlobal(name)) return *found;
  if (reason.empty()) reason = "no installed package declares an engine of that name";
  TVM_FFI_THROW(RuntimeError) << "kernel `" << symbol << "` needs the engine `" << engine
                              << "`: install the Python package that declares it, such as "
                              << "collage_dsl, or register the global function `" << name
                              << "` (" << reason << ")";
  TVM_FFI_UNREACHABLE();
}

// ---- Bytes ----

// Writes numbers as they are in memory, strings after their length, tensor data aligned.
class Writer {
 public:
  explicit Writer(size_t capacity) { bytes_.reserve(capacity); }

  void Number(uint64_t value) { bytes_.append(reinterpret_cast<char*>(&value), sizeof(value)); }

  void Raw(const char* data, size_t size) {
    Number(size);
    bytes_.append(data, size);
  }

  void Data(const Tensor& tensor) {
    Number(tensor.dtype().code);
    Number(tensor.dtype().bits);
    Number(tensor.dtype().lanes);
    Number(tensor.ndim());
    for (int64_t dim : tensor.shape()) Number(dim);
    bytes_.resize((bytes_.size() + kAlignment - 1) / kAlignment * kAlignment);
    bytes_.append(static_cast<char*>(tensor.data_ptr()) + tensor.byte_offset(),
                  GetDataSize(*tensor.GetDLTensorPtr()));
  }

  Bytes Take() { return Bytes(std::move(bytes_)); }

 private:
  std::string bytes_;
};

// The memory of a tensor that is a part of `owner`. Copied only where the part is not aligned.
class PartOf {
 public:
  PartOf(Bytes owner, const char* part) : owner_(std::move(owner)), part_(part) {}

  void AllocData(DLTensor* tensor) {
    tensor->data = const_cast<char*>(part_);
    if (reinterpret_cast<uintptr_t>(part_) % kAlignment == 0) return;
    size_t size = GetDataSize(*tensor);
    tensor->data = copy_ = std::malloc(size);
    TVM_FFI_ICHECK(copy_ != nullptr || size == 0) << "out of memory";
    std::memcpy(copy_, part_, size);
    owner_ = Bytes();
  }

  void FreeData(DLTensor*) { std::free(copy_); }

 private:
  Bytes owner_;
  const char* part_;
  void* copy_ = nullptr;
};

class Reader {
 public:
  explicit Reader(Bytes bytes) : bytes_(std::move(bytes)) {}

  uint64_t Number() {
    uint64_t value;
    std::memcpy(&value, Advance(sizeof(value)), sizeof(value));
    return value;
  }

  std::pair<const char*, size_t> Raw() {
    size_t size = Number();
    return {Advance(size), size};
  }

  String Text() {
    auto [data, size] = Raw();
    return String(data, size);
  }

  Tensor Data() {
    DLDataType dtype;
    dtype.code = static_cast<uint8_t>(Number());
    dtype.bits = static_cast<uint8_t>(Number());
    dtype.lanes = static_cast<uint16_t>(Number());
    std::vector<int64_t> dims(Number());
    for (int64_t& dim : dims) dim = static_cast<int64_t>(Number());
    ShapeView shape(dims.data(), dims.size());
    at_ = (at_ + kAlignment - 1) / kAlignment * kAlignment;
    const char* part = Advance(GetDataSize(shape.Product(), dtype));
    return Tensor::FromNDAlloc(PartOf(bytes_, part), shape, dtype, DLDevice{kDLCPU, 0});
  }

 private:
  const char* Advance(size_t size) {
    TVM_FFI_ICHECK(at_ <= bytes_.size() && size <= bytes_.size() - at_)
        << "the bytes of a " << kKind << " module are cut off";
    const char* here = bytes_.data() + at_;
    at_ += size;
    return here;
  }

  Bytes bytes_;
  size_t at_ = 0;
};

// ---- The module ----

struct Kernel {
  String symbol;
  String engine;
  Bytes payload;
  Constants constants;
  Optional<Function> function = std::nullopt;
};

class KernelModule final : public ModuleObj {
 public:
  explicit KernelModule(std::vector<Kernel> kernels) : kernels_(std::move(kernels)) {}

  const char* kind() const final { return kKind; }

  int GetPropertyMask() const final { return Module::kBinarySerializable | Module::kRunnable; }

  bool ImplementsFunction(const String& name) final { return Find(name) != nullptr; }

  // Python callers wait for the lock without the GIL, which the engine needs: tvm_ffi releases
  // it around calls.
  Optional<Function> GetFunction(const String& name) final {
    Kernel* kernel = Find(name);
    if (kernel == nullptr) return std::nullopt;
    std::lock_guard<std::mutex> lock(mutex_);
    if (!kernel->function.has_value()) {
      Function engine = FindEngine(kernel->engine, kernel->symbol);
      kernel->function =
          engine(kernel->symbol, kernel->payload, kernel->constants).cast<Function>();
    }
    return kernel->function;
  }

  String InspectSource(const String&) const final {
    std::string engines;
    for (const Kernel& kernel : kernels_) {
      engines += (engines.empty() ? "" : "\n") + std::string(kernel.engine.c_str());
    }
    return engines;
  }

  Bytes SaveToBytes() const final {
    std::vector<Tensor> tensors;
    std::unordered_map<const void*, uint64_t> places;
    size_t size = 1024;
    for (const Kernel& kernel : kernels_) {
      size += 1024 + kernel.payload.size();
      for (const auto& [name, tensor] : kernel.constants) {
        size += 256 + name.size();
        if (!places.emplace(tensor.GetDLTensorPtr(), tensors.size()).second) continue;
        size += 8 * tensor.ndim() + GetDataSize(*tensor.GetDLTensorPtr());
        tensors.push_back(tensor);
      }
    }
    Writer writer(size);
    writer.Number(tensors.size());
    for (const Tensor& tensor : tensors) writer.Data(tensor);
    writer.Number(kernels_.size());
    for (const Kernel& kernel : kernels_) {
      writer.Raw(kernel.symbol.data(), kernel.symbol.size());
      writer.Raw(kernel.engine.data(), kernel.engine.size());
      writer.Raw(kernel.payload.data(), kernel.payload.size());
      writer.Number(kernel.constants.size());
      for (const auto& [name, tensor] : kernel.constants) {
        writer.Raw(name.data(), name.size());
        writer.Number(places.at(tensor.GetDLTensorPtr()));
      }
    }
    return writer.Take();
  }

  const std::vector<Kernel>& kernels() const { return kernels_; }

 private:
  Kernel* Find(const String& name) {
    for (Kernel& kernel : kernels_) {
      if (kernel.symbol == name) return &kernel;
    }
    return nullptr;
  }

  std::vector<Kernel> kernels_;
  std::mutex mutex_;
};

Module Create(String symbol, String engine, Bytes payload, Constants constants) {
  for (const auto& [name, tensor] : constants) {
    TVM_FFI_CHECK(tensor.device().device_type == kDLCPU && tensor.IsContiguous(), ValueError)
        << "constant `" << name << "` of kernel `" << symbol << "` is not a plain CPU tensor";
  }
  std::vector<Kernel> kernels{{symbol, engine, payload, constants}};
  return Module(make_object<KernelModule>(std::move(kernels)));
}

// Tensors by their content: of equal ones the first.
class Distinct {
 public:
  Tensor Of(const Tensor& tensor) {
    std::vector<Tensor>& alike = known_[std::hash<std::string_view>()(Content(tensor))];
    for (const Tensor& each : alike) {
      if (IsEqual(each, tensor)) return each;
    }
    alike.push_back(tensor);
    return tensor;
  }

 private:
  static std::string_view Content(const Tensor& tensor) {
    const char* data = static_cast<const char*>(tensor.data_ptr()) + tensor.byte_offset();
    return {data, GetDataSize(*tensor.GetDLTensorPtr())};
  }

  static bool IsEqual(const Tensor& one, const Tensor& other) {
    DLDataType a = one.dtype(), b = other.dtype();
    bool is_alike = a.code == b.code && a.bits == b.bits && a.lanes == b.lanes &&
                    std::equal(one.shape().begin(), one.shape().end(), other.shape().begin(),
                               other.shape().end());
    return is_alike && (one.data_ptr() == other.data_ptr() || Content(one) == Content(other));
  }

  std::unordered_map<size_t, std::vector<Tensor>> known_;
};

Module Join(Array<Module> modules) {
  std::vector<Kernel> kernels;
  Distinct distinct;
  for (const Module& module : modules) {
    TVM_FFI_CHECK(std::string_view(module->kind()) == kKind, ValueError)
        << "a module of kind " << module->kind() << " cannot be joined with kernels";
    for (const Kernel& kernel : static_cast<const KernelModule*>(module.get())->kernels()) {
      Constants constants;
      for (const auto& [name, tensor] : kernel.constants) constants.Set(name, distinct.Of(tensor));
      kernels.push_back({kernel.symbol, kernel.engine, kernel.payload, constants});
    }
  }
  return Module(make_object<KernelModule>(std::move(kernels)));
}

Module Load(Bytes bytes) {
  Reader reader(std::move(bytes));
  std::vector<Tensor> tensors;
  for (uint64_t left = reader.Number(); left > 0; --left) tensors.push_back(reader.Data());
  std::vector<Kernel> kernels;
  for (uint64_t left = reader.Number(); left > 0; --left) {
    String symbol = reader.Text();
    String engine = reader.Text();
    auto [data, size] = reader.Raw();
    Constants constants;
    for (uint64_t count = reader.Number(); count > 0; --count) {
      String name = reader.Text();
      constants.Set(name, tensors.at(reader.Number()));
    }
    kernels.push_back({symbol, engine, Bytes(data, size), constants});
  }
  return Module(make_object<KernelModule>(std::move(kernels)));
}

// ---- The code of this file, as a module ----

// Has no functions. `export_library` writes modules that can be compiled to files, and links these.
class CodeModule final : public ModuleObj {
 public:
  explicit CodeModule(Bytes object) : object_(std::move(object)) {}

  const char* kind() const final { return kCode; }

  int GetPropertyMask() const final {
    return Module::kRunnable | Module::kCompilationExportable;
  }

  Optional<Function> GetFunction(const String&) final { return std::nullopt; }

  Array<String> GetWriteFormats() const final { return {"o"}; }

  void WriteToFile(const String& path, const String&) const final {
    std::ofstream file(path.c_str(), std::ios::binary);
    file.write(object_.data(), static_cast<std::streamsize>(object_.size()));
    file.close();
    TVM_FFI_CHECK(file.good(), RuntimeError) << "cannot write " << path;
  }

 private:
  Bytes object_;
};

Module Code(Bytes object) { return Module(make_object<CodeModule>(std::move(object))); }

__attribute__((constructor)) void Register() {
  bool has_code = Function::GetGlobal(kCode).has_value();
  bool has_loader = Function::GetGlobal(kLoader).has_value();
  if (has_code && has_loader) return;
  collage::StayLoaded(reinterpret_cast<void*>(&Register));
  Function::SetGlobal(kCode, Function::FromTyped(Code), /*override=*/true);
  if (has_loader) return;  // that of a library of an older version, which had no kCode
  Function::SetGlobal(kCreate, Function::FromTyped(Create), /*override=*/true);
  Function::SetGlobal(kJoin, Function::FromTyped(Join), /*override=*/true);
  Function::SetGlobal(kLoader, Function::FromTyped(Load), /*override=*/true);
}

}  // namespace
