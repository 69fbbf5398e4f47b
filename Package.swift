// swift-tools-version: 6.2
import PackageDescription

let settings: [SwiftSetting] = [
  .swiftLanguageMode(.v6),
  .treatAllWarnings(as: .error),
  .strictMemorySafety(),
  .enableUpcomingFeature("ExistentialAny"),
  .enableUpcomingFeature("InternalImportsByDefault"),
  .enableUpcomingFeature("MemberImportVisibility"),
  .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
]

/// Each layer imports only the ones named here, so the build checks the arrows of the design.
let package = Package(
  name: "shared-breaker",
  products: [
    .library(name: "SharedBreaker", targets: ["SharedBreaker"]),
    .library(name: "SharedBreakerTesting", targets: ["SharedBreakerTesting"]),
    .executable(name: "cbctl", targets: ["cbctl"]),
    .executable(name: "cbrelay", targets: ["cbrelay"]),
    // The C library; scripts/build-library builds it as it is shipped.
    .library(name: "sharedbreaker", type: .dynamic, targets: ["LibSharedBreaker"]),
  ],
  targets: [
    .systemLibrary(
      name: "CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
    .target(name: "CHost", dependencies: ["CSQLite"]),
    .target(name: "BreakerCore", swiftSettings: settings),
    .target(
      name: "BreakerStore", dependencies: ["BreakerCore", "CHost", "CSQLite"],
      resources: [.embedInCode("migrations")], swiftSettings: settings),
    .target(name: "JSONText", dependencies: ["BreakerCore"], swiftSettings: settings),
    .target(
      name: "SharedBreaker", dependencies: ["BreakerCore", "BreakerStore", "CHost", "JSONText"],
      swiftSettings: settings),
    .target(
      name: "SharedBreakerTesting", dependencies: ["SharedBreaker", "BreakerCore", "BreakerStore"],
      swiftSettings: settings),
    .target(
      name: "BreakerDocuments", dependencies: ["SharedBreaker", "JSONText"],
      swiftSettings: settings),
    .systemLibrary(name: "CSharedBreaker"),
    .target(
      name: "LibSharedBreaker",
      dependencies: [
        "BreakerCore", "BreakerDocuments", "BreakerStore", "CSharedBreaker", "SharedBreaker",
      ],
      swiftSettings: settings),
    .target(name: "CArguments"),
    // What cbctl and cbrelay share.
    .target(
      name: "ProgramKit", dependencies: ["CArguments", "JSONText", "SharedBreaker"],
      swiftSettings: settings),
    .target(
      name: "ControlKit",
      dependencies: ["BreakerDocuments", "ProgramKit", "SharedBreaker"],
      swiftSettings: settings),
    .executableTarget(name: "cbctl", dependencies: ["ControlKit"], swiftSettings: settings),
    // Without pkg-config: hiredis names a flag there that the package manager warns about.
    .systemLibrary(name: "CHiredis", providers: [.apt(["libhiredis-dev"])]),
    .systemLibrary(name: "COpenSSL", pkgConfig: "openssl", providers: [.apt(["libssl-dev"])]),
    .target(
      name: "BreakerRelay",
      dependencies: ["CHiredis", "COpenSSL", "JSONText", "ProgramKit", "SharedBreaker"],
      swiftSettings: settings),
    .executableTarget(name: "cbrelay", dependencies: ["BreakerRelay"], swiftSettings: settings),
    .executableTarget(
      name: "demo-worker", dependencies: ["SharedBreaker"], path: "Sources/DemoWorker",
      swiftSettings: settings),
    .executableTarget(
      name: "worker-pool", dependencies: ["SharedBreaker"], path: "Sources/Examples/WorkerPool",
      swiftSettings: settings),
    .target(name: "CPrefork", path: "Sources/Examples/CPrefork"),
    .executableTarget(
      name: "prefork", dependencies: ["CPrefork", "SharedBreaker"],
      path: "Sources/Examples/Prefork", swiftSettings: settings),
    .executableTarget(
      name: "queue-consumer", dependencies: ["SharedBreaker"],
      path: "Sources/Examples/QueueConsumer", swiftSettings: settings),
    .executableTarget(
      name: "url-fetch", dependencies: ["SharedBreaker"], path: "Sources/Examples/URLFetch",
      swiftSettings: settings),

    .target(
      name: "TestSupport", dependencies: ["SharedBreaker", "BreakerStore", "CSQLite", "TestShim"],
      path: "Tests/Support", swiftSettings: settings),
    .target(name: "TestShim", dependencies: ["CSQLite"], path: "Tests/Shim"),
    .executableTarget(
      name: "puppet",
      dependencies: ["SharedBreaker", "BreakerStore", "ProgramKit", "TestSupport", "TestShim"],
      path: "Tests/Puppet", exclude: ["README.md"], swiftSettings: settings),
    .executableTarget(
      name: "environments", dependencies: ["TestSupport"], path: "Tests/Environments",
      exclude: ["README.md"], swiftSettings: settings),
    .target(name: "FaultShim", dependencies: ["CSQLite"], path: "Tests/FaultShim"),
    .executableTarget(
      name: "fault-player",
      dependencies: ["SharedBreaker", "BreakerStore", "TestSupport", "FaultShim"],
      path: "Tests/FaultPlayer", swiftSettings: settings),
    .target(name: "BenchShim", path: "Tests/BenchShim"),
    .target(name: "BenchReport", path: "Tests/BenchReport", swiftSettings: settings),
    .executableTarget(
      name: "bench",
      dependencies: [
        "SharedBreaker", "CSQLite", "TestSupport", "TestShim", "BenchShim", "BenchReport",
      ],
      path: "Tests/Bench", exclude: ["README.md"], swiftSettings: settings),
    .target(
      name: "TortureReferee", dependencies: ["TestSupport"], path: "Tests/TortureReferee",
      swiftSettings: settings),
    .executableTarget(
      name: "torture",
      dependencies: [
        "BreakerCore", "BreakerStore", "ControlKit", "SharedBreaker", "TestShim", "TestSupport",
        "TortureReferee",
      ],
      path: "Tests/Torture", exclude: ["README.md"], swiftSettings: settings),
    .executableTarget(
      name: "fleet-simulation", dependencies: ["BreakerCore", "TestSupport"],
      path: "Tests/FleetSimulation", swiftSettings: settings),
    .executableTarget(
      name: "fleet-torture",
      dependencies: [
        "BreakerStore", "ProgramKit", "SharedBreaker", "TestSupport", "TortureReferee",
      ],
      path: "Tests/FleetTorture", exclude: ["skew.c"], swiftSettings: settings),
    .executableTarget(
      name: "limit-torture",
      dependencies: ["BreakerStore", "SharedBreaker", "TestShim", "TestSupport", "TortureReferee"],
      path: "Tests/LimitTorture", exclude: ["client.c", "client.py"], swiftSettings: settings),
    .testTarget(
      name: "TortureTests", dependencies: ["SharedBreaker", "TortureReferee"],
      swiftSettings: settings),
    .testTarget(
      name: "BenchReportTests", dependencies: ["BenchReport"], swiftSettings: settings),
    .testTarget(
      name: "BreakerCoreTests", dependencies: ["BreakerCore"], swiftSettings: settings),
    .testTarget(
      name: "BreakerStoreTests",
      dependencies: [
        "BreakerCore", "BreakerStore", "SharedBreaker", "TestSupport", "puppet", "cbctl",
      ],
      swiftSettings: settings),
    .testTarget(
      name: "SharedBreakerTests",
      dependencies: [
        "BreakerCore", "BreakerStore", "SharedBreaker", "SharedBreakerTesting", "TestSupport",
        "puppet",
      ],
      swiftSettings: settings),
    .testTarget(
      name: "LibSharedBreakerTests",
      dependencies: ["CSharedBreaker", "LibSharedBreaker", "SharedBreaker", "TestSupport"],
      swiftSettings: settings),
    .testTarget(
      name: "FaultTests", dependencies: ["TestSupport", "fault-player"], swiftSettings: settings),
    .testTarget(
      name: "CallTests",
      dependencies: ["SharedBreaker", "SharedBreakerTesting", "TestShim", "TestSupport"],
      swiftSettings: settings),
    .testTarget(
      name: "ControlKitTests",
      dependencies: [
        "BreakerDocuments", "ControlKit", "ProgramKit", "SharedBreaker", "BreakerStore",
        "BreakerCore", "TestSupport", "TestShim", "cbctl",
      ],
      exclude: ["Snapshots"], swiftSettings: settings),
    .testTarget(
      name: "BreakerRelayTests",
      dependencies: ["BreakerRelay", "SharedBreaker", "TestSupport", "cbrelay"],
      swiftSettings: settings),
    .testTarget(
      name: "CommandLineTests",
      dependencies: [
        "SharedBreaker", "TestSupport", "bench", "cbctl", "fleet-simulation", "prefork",
        "queue-consumer", "url-fetch", "worker-pool",
      ],
      swiftSettings: settings),
  ],
  cLanguageStandard: .c11
)

// The fuzz targets are a program only for scripts/fuzz, because it has no main function without
// libFuzzer. Otherwise they are tests, which run the kept corpus.
let fuzzDependencies: [Target.Dependency] = [
  "BreakerDocuments", "ControlKit", "ProgramKit", "SharedBreaker", "SharedBreakerTesting",
  "BreakerStore", "BreakerCore", "CSharedBreaker", "LibSharedBreaker", "TestSupport",
]
package.targets.append(
  Context.environment["SHARED_BREAKER_FUZZ"] == nil
    ? .testTarget(
      name: "FuzzTests", dependencies: fuzzDependencies, path: "Tests/Fuzz",
      exclude: ["Corpus", "Dictionaries"], swiftSettings: settings)
    : .executableTarget(
      name: "fuzz", dependencies: fuzzDependencies, path: "Tests/Fuzz",
      exclude: ["Corpus", "Dictionaries", "CorpusTests.swift"], swiftSettings: settings))

// A script can ask for a part of the tests, with their dependencies. Building the others would take
// most of its time.
let parts = [
  "core": ["BreakerCoreTests"],
  // For ThreadSanitizer, tests with threads. For AddressSanitizer, tests that use C memory or run
  // out of memory.
  "thread": ["BreakerStoreTests", "SharedBreakerTests", "CallTests"],
  "address": [
    "BreakerStoreTests", "SharedBreakerTests", "CallTests", "FaultTests", "LibSharedBreakerTests",
  ],
]
if let part = Context.environment["SHARED_BREAKER_PART"] {
  guard var needed = parts[part] else { fatalError("SHARED_BREAKER_PART: there is no \(part)") }
  let targets = Dictionary(uniqueKeysWithValues: package.targets.map { ($0.name, $0) })
  var kept = Set<String>()
  while let name = needed.popLast() {
    kept.insert(name)
    for case .byNameItem(let dependency, _) in targets[name]?.dependencies ?? [] {
      needed.append(dependency)
    }
  }
  package.products = []
  package.targets.removeAll { !kept.contains($0.name) }
}
