// A document is a JSONValue, so code that uses one needs only `import BreakerDocuments`.
@_exported public import JSONText
