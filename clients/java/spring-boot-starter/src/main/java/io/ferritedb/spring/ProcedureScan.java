package io.ferritedb.spring;

import io.ferritedb.client.Client;
import org.springframework.beans.factory.BeanFactory;
import org.springframework.beans.factory.BeanFactoryAware;
import org.springframework.beans.factory.annotation.AnnotatedBeanDefinition;
import org.springframework.beans.factory.config.BeanDefinition;
import org.springframework.beans.factory.support.BeanDefinitionBuilder;
import org.springframework.beans.factory.support.BeanDefinitionRegistry;
import org.springframework.boot.autoconfigure.AutoConfigurationPackages;
import org.springframework.context.annotation.ClassPathScanningCandidateComponentProvider;
import org.springframework.context.annotation.ImportBeanDefinitionRegistrar;
import org.springframework.core.type.AnnotationMetadata;
import org.springframework.core.type.filter.AnnotationTypeFilter;
import org.springframework.util.ClassUtils;

/**
 * Finds the application's {@link FerriteProcedure} interfaces and makes each a bean. What a method
 * returns is checked when the bean is made, not at its first call.
 */
final class ProcedureScan implements ImportBeanDefinitionRegistrar, BeanFactoryAware {
    private BeanFactory factory;

    @Override
    public void setBeanFactory(BeanFactory factory) {
        this.factory = factory;
    }

    @Override
    public void registerBeanDefinitions(AnnotationMetadata importing, BeanDefinitionRegistry registry) {
        if (!AutoConfigurationPackages.has(factory)) return;
        var scanner = new ClassPathScanningCandidateComponentProvider(false) {
            @Override
            protected boolean isCandidateComponent(AnnotatedBeanDefinition candidate) {
                return candidate.getMetadata().isInterface() && candidate.getMetadata().isIndependent();
            }
        };
        scanner.addIncludeFilter(new AnnotationTypeFilter(FerriteProcedure.class));
        for (String from : AutoConfigurationPackages.get(factory)) {
            for (BeanDefinition found : scanner.findCandidateComponents(from)) register(ClassUtils.resolveClassName(found.getBeanClassName(), null), registry);
        }
    }

    private <T> void register(Class<T> type, BeanDefinitionRegistry registry) {
        // One of the application's packages may lie within another: then it is found twice.
        if (registry.containsBeanDefinition(type.getName())) return;
        var definition = BeanDefinitionBuilder.genericBeanDefinition(type, () -> factory.getBean(Client.class).procedures(type, factory.getBean(FerriteOperations.class)));
        registry.registerBeanDefinition(type.getName(), definition.getBeanDefinition());
    }
}
