package web

import (
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// object is one of JSON.
type object = map[string]any

// describe makes the OpenAPI description of our paths, from the messages that they
// carry: it cannot say anything else than what is done.
func describe(routes []route) []byte {
	schemas := object{"Error": object{
		"type": "object", "required": []string{"error"},
		"properties": object{
			"error": object{"type": "string", "description": "a sentence, with what is allowed"},
			"field": object{"type": "string"}, "given": object{"type": "string"},
			"allowed": object{"type": "array", "items": object{"type": "string"}},
		},
	}}
	paths := object{}
	for _, rt := range routes {
		path, ok := paths[rt.path].(object)
		if !ok {
			path = object{}
			paths[rt.path] = path
		}
		path[strings.ToLower(rt.method)] = rt.operation(schemas)
	}
	text, err := json.MarshalIndent(object{
		"openapi": "3.0.3",
		"info": object{
			"title": "xmsched", "version": "v1",
			"description": "Shows and steers what xserver schedules, as xcli does. Who asks is told by a token: " +
				"its user sees and steers his own tasks, root all. 64-bit numbers are written as text, as in protobuf's JSON.",
		},
		"paths": paths,
		"components": object{
			"schemas":         schemas,
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer", "description": "what xcli token shows"}},
		},
		"security": []object{{"token": []string{}}},
	}, "", "  ")
	if err != nil {
		panic("the description is no JSON: " + err.Error()) // nothing in it depends on anything
	}
	return text
}

func (rt route) operation(schemas object) object {
	replies := object{"200": object{"description": "done", "content": content(reference(rt.reply.ProtoReflect().Descriptor(), schemas))}}
	errors := map[string]string{"401": "no token, or none of this daemon", "503": "the daemon is going down"}
	op := object{"operationId": rt.id, "summary": rt.summary, "responses": replies}
	if strings.Contains(rt.path, "{task}") {
		op["parameters"] = []object{{"name": "task", "in": "path", "required": true, "schema": object{"type": "integer", "minimum": 1}}}
		errors["404"] = "there is no such task"
	}
	if strings.Contains(rt.path, "{task}") || rt.body != nil {
		errors["403"] = "it is not the caller's to see or to change"
	}
	if rt.body != nil {
		errors["400"] = "a value is not allowed; which are, is said"
		errors["409"] = "the device does not offer it"
		op["requestBody"] = object{"required": true, "content": content(schema(rt.body().ProtoReflect().Descriptor(), schemas, rt.byPath))}
	}
	for code, meaning := range errors {
		replies[code] = object{"description": meaning, "content": content(object{"$ref": "#/components/schemas/Error"})}
	}
	return op
}

func content(of object) object { return object{"application/json": object{"schema": of}} }

// reference refers to a message's schema, which is added if it is not there yet.
func reference(d protoreflect.MessageDescriptor, schemas object) object {
	name := string(d.Name())
	if _, ok := schemas[name]; !ok {
		schemas[name] = object{} // it may hold itself
		schemas[name] = schema(d, schemas, nil)
	}
	return object{"$ref": "#/components/schemas/" + name}
}

func schema(d protoreflect.MessageDescriptor, schemas object, without []string) object {
	properties := object{}
	fields := d.Fields()
next:
	for i := range fields.Len() {
		f := fields.Get(i)
		for _, name := range without {
			if string(f.Name()) == name {
				continue next
			}
		}
		s := kind(f, schemas)
		if f.IsList() {
			s = object{"type": "array", "items": s}
		} else if f.Message() != nil {
			s = object{"nullable": true, "allOf": []object{s}}
		}
		properties[string(f.Name())] = s
	}
	return object{"type": "object", "properties": properties, "additionalProperties": false}
}

// kind is how protobuf's JSON writes a field's values.
func kind(f protoreflect.FieldDescriptor, schemas object) object {
	switch f.Kind() {
	case protoreflect.MessageKind:
		return reference(f.Message(), schemas)
	case protoreflect.BoolKind:
		return object{"type": "boolean"}
	case protoreflect.StringKind:
		return object{"type": "string"}
	case protoreflect.DoubleKind:
		return object{"type": "number"}
	case protoreflect.Int32Kind:
		return object{"type": "integer", "format": "int32"}
	case protoreflect.Uint32Kind:
		return object{"type": "integer", "minimum": 0}
	case protoreflect.Uint64Kind:
		return object{"type": "string", "pattern": "^[0-9]+$"}
	}
	panic("no schema for fields like " + string(f.FullName()))
}
